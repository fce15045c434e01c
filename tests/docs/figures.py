"""Figures of a page, and where they stand in committed JSON files.

A file beside the tests says so for each page: `tests/docs/sources/docs/results.txt` for
`docs/results.md`. Below a heading of the page it has the rules of the section's tables, by their
number, and of the numbers in its text:

    ## The heading as it is on the page
    table 1
      rows | columns | file path
      names | Bonsai=bonsai; Parabel=omikuji
    text
      1.50 and 1.73 | file path
      1.5 | = 4 * 1000 * 375 / 10**6
      no results | 0.5, 0.07

In a table, `rows` is a regular expression of the line; of the rules for a cell the first counts,
and each rule must have a figure.
`columns` are headings, or numbers such as `#2`, the third. In `file path`, `{0}` is the first cell
of the row (the one above, where it is empty), by the name that `names` gives it, and `{head}` the
heading, likewise. The numbers before a path of `text` must occur in the section. `no results` are
settings, examples and what others published. A number with a decimal point that no rule accounts
for is found by `unmarked`.

A path has keys and filters: `runs[data=gowalla].metrics.P@1`. Of several values that match, it is
the mean, or with ` median`, ` min` or ` max` behind the path that of them; ` in percent`, ` in MiB`
and ` in ms` are units. `path over path`, `minus` and `plus` are of such values, from left to right;
a path may be arithmetic such as `4 * 512`, and those after the first may begin with another file.
`by seed` behind them takes the mean over the seeds of the first. Several figures of one cell or
line are told by `(P@1 / P@3)` within the path, in their order. A number of the page must be the
value of the file, rounded to its digits.
"""

from __future__ import annotations

import functools
import json
import operator
import re
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_TABLE = re.compile(r"(?:^\|[^\n]*\n)+", re.MULTILINE)
_NUMBER = re.compile(r"(?<![\w.@])-?\d(?:[\d,]*\d)?(?:\.\d+)?")
_DECIMAL = re.compile(r"(?<![\w.@/-])-?\d[\d,]*\.\d+(?![\d.]*\.\d)")
_UNITS = {" in percent": 100.0, " in MiB": 2.0**-20, " in ms": 1000.0}
_TAKEN = {" median": statistics.median, " min": min, " max": max}
_ARITHMETIC = re.compile(r"[\d\s.()*/+-]+")
_OPERATION = re.compile(r" (over|minus|plus) ")
_OPERATIONS = {"over": operator.truediv, "minus": operator.sub, "plus": operator.add}
_LAST_FILTER = re.compile(r"\](?=[^\[\]]*(?: over | minus | plus |$))")
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
        path = self.path.removesuffix(" by seed")
        if path == self.path:
            return self._value(path)
        first = _OPERATION.split(path)[0]
        seeds = look_up(_read(ROOT / self.file), first[: first.rindex("]") + 1] + ".seed")
        each = [_LAST_FILTER.sub(rf"\g<0>[seed={int(seed)}]", path) for seed in seeds]
        return statistics.mean(self._value(one) for one in each)

    def _value(self, path: str) -> float:
        first, *rest = _OPERATION.split(path)
        value = self._of(first)
        for operation, operand in zip(rest[::2], rest[1::2], strict=True):
            value = _OPERATIONS[operation](value, self._of(operand))
        return value

    def _of(self, path: str) -> float:
        """The value of one path, which may begin with a file of its own, or be a number."""
        if _ARITHMETIC.fullmatch(path):
            return float(eval(path))
        file, found, rest = path.partition(".json ")
        file, path = (file + ".json", rest) if found else (self.file, path)
        times, taken = 1.0, statistics.mean
        for suffix, factor in _UNITS.items():
            if path.endswith(suffix):
                path, times = path.removesuffix(suffix), factor
        for suffix, function in _TAKEN.items():
            if path.endswith(suffix):
                path, taken = path.removesuffix(suffix), function
        values = look_up(_read(ROOT / file), path)
        if not values:
            raise LookupError(f"{self.where}: nothing at {path} of {file}")
        return taken(values) * times

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


class Section(NamedTuple):
    """A part of a page, from a heading to the next: its text, and the rules of its figures."""

    page: str
    text: str
    of_tables: dict[int, list[str]]
    of_text: list[str]

    @property
    def heading(self) -> str:
        return self.text.partition("\n")[0]

    def in_tables(self) -> Iterator[Figure]:
        tables = _TABLE.findall(self.text)
        for number, rules in self.of_tables.items():
            assert number <= len(tables), f"{self.page}: no table {number} below {self.heading}"
            yield from _of_table(self.page, rules, tables[number - 1])

    def in_text(self) -> Iterator[tuple[Figure | None, str]]:
        """What the rules of the text account for: a number, and the figure if it is one."""
        printed = set(_NUMBER.findall(self.text))
        for line in self.of_text:
            left, right = (part.strip() for part in line.split("|", 1))
            numbers = _NUMBER.findall(right if left == "no results" else left)
            missing = [number for number in numbers if number not in printed]
            assert not missing, f"{self.page}: {missing} not in the text of {self.heading}"
            if left == "no results":
                yield from ((None, number) for number in numbers)
                continue
            file, _, path = right.partition(" ")
            paths = _paths(path)
            assert len(numbers) == len(paths), f"{self.page}: {left}: {len(paths)} values"
            for number, one in zip(numbers, paths, strict=True):
                yield Figure(f"{self.page}: {number}", number, file, one), number


def sections(page: Path) -> list[Section]:
    """A page without its blocks of code, cut before its headings.

    Raises:
      AssertionError: there are rules for a heading that the page has not, or twice.
    """
    name = page.relative_to(ROOT)
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    rules = _rules(ROOT / "tests/docs/sources" / name.with_suffix(".txt"))
    found = []
    parts = re.split(r"^(?=#+ )", text, flags=re.MULTILINE)
    headings = Counter(part.partition("\n")[0] for part in parts)
    twice = [heading for heading in rules if headings[heading] > 1]
    assert not twice, f"{name}: twice {', '.join(twice)}"
    for part in parts:
        found.append(Section(str(name), part, *rules.pop(part.partition("\n")[0], ({}, []))))
    assert not rules, f"{name}: no heading {', '.join(rules)}"
    return found


def _rules(source: Path) -> dict[str, tuple[dict[int, list[str]], list[str]]]:
    """By heading, the rules of its tables and those of its text."""
    found: dict[str, tuple[dict[int, list[str]], list[str]]] = {}
    text = source.read_text(encoding="utf-8") if source.is_file() else ""
    block: list[str] | None = None
    for line in filter(str.strip, text.splitlines()):
        if line.startswith("#"):
            assert line not in found, f"{source.name}: {line} comes twice"
            tables, of_text = found[line] = ({}, [])
            block = None
        elif line.startswith("  "):
            assert block is not None, f"{source.name}: {line.strip()} of no table and no text"
            block.append(line.strip())
        else:
            kind, _, number = line.partition(" ")
            assert kind in ("table", "text"), f"{source.name}: found {line}, expected table or text"
            block = tables.setdefault(int(number), []) if kind == "table" else of_text
    return found


def figures(page: Path) -> Iterator[Figure]:
    """All figures of a page whose value is named."""
    for section in sections(page):
        yield from section.in_tables()
        for figure, _ in section.in_text():
            if figure:
                yield figure


def unmarked(page: Path) -> list[str]:
    """Numbers with a decimal point that no rule accounts for, with their section.

    Code is left out.
    """
    found = []
    for section in sections(page):
        known = Counter(one.printed for one in section.in_tables())
        said = {number for _, number in section.in_text()}
        for number in _DECIMAL.findall(re.sub(r"`[^`\n]*`", "", section.text)):
            if number in said:
                continue
            known[number] -= 1
            if known[number] < 0:
                found.append(f"{section.heading}: {number}")
    return found


def _of_table(page: str, lines: list[str], table: str) -> Iterator[Figure]:
    rules, names = [], {}
    for line in lines:
        if line.startswith("names |"):
            pairs = line.removeprefix("names |").split(";")
            names |= dict(pair.strip().split("=", 1) for pair in pairs)
            continue
        rows, columns, place = (part.strip() for part in line.rsplit("|", 2))
        rules.append((rows, columns, place))
    head, _, *rows = (_cells(line) for line in table.splitlines())
    above = [""] * len(head)
    used = set()
    for cells in rows:
        above = [cell or before for cell, before in zip(cells, above, strict=True)]
        known = [names.get(_plain(cell), _plain(cell)) for cell in above]
        mine = [rule for rule in rules if re.search(rule[0], " | ".join(cells))]
        taken: set[int] = set()
        for rule in mine:
            for column in map(str.strip, rule[1].split(",")):
                place = int(column[1:]) if column.startswith("#") else head.index(column)
                if place not in taken:
                    taken.add(place)
                    called = names.get(head[place], head[place])
                    for figure in _of_cell(page, cells[place], called, rule[2], known):
                        used.add(rule)
                        yield figure
    unused = [" | ".join(rule[:2]) for rule in rules if rule not in used]
    assert not unused, f"{page}: no figure in the table has the rule {', '.join(unused)}"


def _of_cell(page: str, cell: str, heading: str, place: str, known: list[str]) -> Iterator[Figure]:
    place = place.replace("{head}", heading)
    place = re.sub(r"\{(\d)\}", lambda found: known[int(found[1])], place)
    file, _, path = place.partition(" ")
    paths = _paths(path)
    parts = len(paths) > 1
    # Words in brackets are no figures: "(used by 2 of 3 seeds)", nor are ratios that no path names.
    brackets = r"\((?:[^()]*[a-wyz]{2}[^()]*|\d+)\)" if parts else r"\([^()]*\)"
    printed = _NUMBER.findall(re.sub(brackets, "", cell.replace("*", "")))
    where = f"{page}: {known[0]}, {heading}: {cell}"
    assert len(printed) <= len(paths), f"{where}: more figures than {path} says"
    for number, one in zip(printed, paths, strict=False):
        yield Figure(where, number, file, one)


def _paths(path: str) -> list[str]:
    """The path of each figure: `(a / b)` within a path makes two of it."""
    parts = re.search(r"\(([^()]* / [^()]*)\)", path)
    if not parts:
        return [path]
    return [path.replace(parts[0], one.strip()) for one in parts[1].split(" / ")]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _plain(cell: str) -> str:
    """A cell without marks and words in brackets; of one that begins with a `name`, that."""
    if found := re.match(r"`([^`]+)`", cell):
        return found[1]
    return re.sub(r"\([^()]*\)", "", re.sub(r"[`*]", "", cell)).strip()
