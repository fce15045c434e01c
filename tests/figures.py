"""Figures of a page, and where they stand in committed JSON files.

Two comments, which Markdown does not show, say so. One stands above a table, with a rule a line (or
separated by `;;`):

    <!-- figures
    rows | columns | file path
    names | Bonsai=bonsai; Parabel=omikuji
    -->

`rows` is a regular expression of the table's line; of the rules for a cell the first counts.
`columns` are headings, or numbers such as `#2`, the third. In `file path`, `{0}` is the first cell
of the row (the one above, where it is empty), by the name that `names` gives it, and `{head}` the
heading, likewise. The other comment follows a number of a sentence: `1.50<!-- = file path -->`.

A path has keys and filters: `runs[data=gowalla].metrics.P@1`. Of several values that match, it is
the mean, or with ` median` behind the path the median. Several figures of one cell are told by
`(P@1 / P@3)` within the path, in their order. A number of the page must be the value of the file,
rounded to its digits.
"""

from __future__ import annotations

import functools
import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_TABLE = re.compile(r"<!-- figures\b:?(.*?)-->\n+((?:\|[^\n]*\n)+)", re.DOTALL)
_SENTENCE = re.compile(r"(-?[\d,]*\.?\d+)%?<!-- = ([^\n]*?) -->")
_NUMBER = re.compile(r"(?<![\w.@])-?\d[\d,]*(?:\.\d+)?")
_STEP = re.compile(r"\[([^=\]]+)=([^\]]*)\]|([^.\[\]]+)")


class Figure(NamedTuple):
    """A number as it is printed, and where its value is to be found."""

    where: str
    printed: str
    file: str
    path: str

    @property
    def found(self) -> float:
        """The value of the file.

        Raises:
          LookupError: nothing there.
        """
        path = self.path.removesuffix(" median")
        values = look_up(_read(ROOT / self.file), path)
        if not values:
            raise LookupError(f"{self.where}: nothing at {self.path} of {self.file}")
        return statistics.mean(values) if path == self.path else statistics.median(values)

    @property
    def right(self) -> bool:
        """Whether the number is the value, rounded to as many digits."""
        digits = len(self.printed.partition(".")[2])
        printed = float(self.printed.replace(",", ""))
        return abs(printed - self.found) <= 0.5 * 10**-digits * (1 + 1e-6)


@functools.cache
def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def look_up(value: Any, path: str) -> list[float]:
    """All numbers at a path."""
    here = [value]
    for key, wanted, plain in _STEP.findall(path):
        if plain:
            here = [of for one in here for of in _under(one, plain)]
        else:
            every = [of for one in here for of in (one if isinstance(one, list) else [one])]
            here = [one for one in every if _is(one, key, wanted)]
    return [float(one) for one in here]


def _under(value: Any, key: str) -> list[Any]:
    if isinstance(value, list):
        if key.isdigit():
            return [value[int(key)]]
        return [found for one in value for found in _under(one, key)]
    return [value[key]] if isinstance(value, dict) and key in value else []


def _is(value: Any, key: str, wanted: str) -> bool:
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return str(value) == wanted


def figures(page: Path) -> Iterator[Figure]:
    """All figures of a page that name their value."""
    text = page.read_text(encoding="utf-8")
    for rules, table in _TABLE.findall(text):
        yield from _of_table(page.name, rules, table)
    for printed, place in _SENTENCE.findall(text):
        file, _, path = place.partition(" ")
        yield Figure(f"{page.name}: {printed}", printed, file, path)


def _of_table(page: str, text: str, table: str) -> Iterator[Figure]:
    rules, names = [], {}
    for line in filter(None, map(str.strip, re.split(r"\n|;;", text))):
        if line.startswith("names |"):
            pairs = line.removeprefix("names |").split(";")
            names |= dict(pair.strip().split("=", 1) for pair in pairs)
            continue
        rows, columns, place = (part.strip() for part in line.rsplit("|", 2))
        rules.append((rows, columns, place))
    head, _, *rows = (_cells(line) for line in table.splitlines())
    above = [""] * len(head)
    for cells in rows:
        above = [cell or before for cell, before in zip(cells, above, strict=True)]
        known = [names.get(_plain(cell), _plain(cell)) for cell in above]
        mine = [rule for rule in rules if re.search(rule[0], " | ".join(cells))]
        taken: set[int] = set()
        for _, columns, where in mine:
            for column in map(str.strip, columns.split(",")):
                place = int(column[1:]) if column.startswith("#") else head.index(column)
                if place not in taken:
                    taken.add(place)
                    called = names.get(head[place], head[place])
                    yield from _of_cell(page, cells[place], called, where, known)


def _of_cell(page: str, cell: str, heading: str, place: str, known: list[str]) -> Iterator[Figure]:
    place = place.replace("{head}", heading)
    place = re.sub(r"\{(\d)\}", lambda found: known[int(found[1])], place)
    file, _, path = place.partition(" ")
    parts = re.search(r"\(([^()]* / [^()]*)\)", path)
    paths = [path]
    if parts:
        paths = [path.replace(parts[0], one.strip()) for one in parts[1].split(" / ")]
    # Words in brackets are no figures: "(used by 2 of 3 seeds)", nor are ratios that no path names.
    brackets = r"\([^()]*[a-wyz]{2}[^()]*\)" if parts else r"\([^()]*\)"
    printed = _NUMBER.findall(re.sub(brackets, "", cell.replace("*", "")))
    where = f"{page}: {known[0]}, {heading}: {cell}"
    assert len(printed) <= len(paths), f"{where}: more figures than {path} says"
    for number, one in zip(printed, paths, strict=False):
        yield Figure(where, number, file, one)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _plain(cell: str) -> str:
    """A cell without marks and words in brackets; of one that begins with a `name`, that."""
    if found := re.match(r"`([^`]+)`", cell):
        return found[1]
    return re.sub(r"\([^()]*\)", "", re.sub(r"[`*]", "", cell)).strip()
