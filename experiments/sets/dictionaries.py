r"""Makes data sets from tables that Debian packages: chess openings, Chinese characters, emoji.

    python -m experiments.sets.dictionaries openings SCID/data/scid.eco --out openings.csv
    python -m experiments.sets.dictionaries kanji /usr/share/edict/kanjidic --out kanji.csv
    python -m experiments.sets.dictionaries emoji CLDR/annotations/en.xml --out emoji.csv
    python -m experiments.sets.dictionaries unihan /usr/share/unicode --out unihan.csv
    python -m experiments.sets.dictionaries unicode /usr/share/unicode --out unicode.csv

`openings` are the moves of an opening without their numbers, and as labels its ECO code and the
parts of its name. `kanji` are English meanings of a character, and as labels its radical and its
Sino-Japanese readings. `emoji` are their names in the language of the file, and as labels their
English keywords, from en.xml beside it. `unihan` are English definitions of Chinese characters, and
their radicals; `unicode` names of other characters, and their block and properties. The files are
in the packages scid-data (SCID is /usr/share/scid), kanjidic, unicode-cldr-core (CLDR is
/usr/share/unicode/cldr/common) and unicode-data. Rows of one text are joined, and labels of fewer
than three texts are left out, except for `openings`. Rows are shuffled with seed 0. To import,
where \S+ keeps moves such as O-O and Bb4+ whole:

    snm data import FILE --label-separator ';' --test-fraction 0.1 --out DATA
    snm data import openings.csv --token-pattern '\S+' --label-separator ';' \
        --test-fraction 0.1 --out openings
"""

from __future__ import annotations

import bz2
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import tyro

from experiments.sets.csv_rows import Row, write_rows
from experiments.shared.command_line import run_command
from snm.errors import InputError

SKIN_TONES = re.compile("[\U0001f3fb-\U0001f3ff]")
INHERITED = "↑↑↑"  # CLDR's mark for a text of the language above

Kind = Literal["openings", "kanji", "emoji", "unihan", "unicode"]


def main(
    kind: tyro.conf.Positional[Kind],
    path: tyro.conf.Positional[Path],
    out: Path,
) -> None:
    """Writes the CSV.

    Args:
      kind: what texts and labels are.
      path: a file or folder of a Debian package.
      out: a CSV file to write, with the columns text and labels.
    """
    try:
        rows = joined(KINDS[kind](path))
    except (OSError, EOFError, LookupError, ValueError, ElementTree.ParseError) as error:
        raise InputError(str(path), f"no {kind} ({error})", "a path as --help shows") from None
    write_rows(rows, out, f"{path}: {kind}", fewest=1 if kind == "openings" else 3)


def joined(rows: Iterable[Row]) -> list[Row]:
    """One row for each text, with the labels of all its rows and no separator in them."""
    found: dict[str, dict[str, None]] = {}
    for text, labels in rows:
        if text:
            kept = (label.replace(";", ",") for label in labels)
            found.setdefault(text, {}).update(dict.fromkeys(kept))
    return [(text, list(labels)) for text, labels in found.items()]


def read_openings(path: Path) -> Iterator[Row]:
    """Moves of openings, and their codes and the parts of their names that are no moves."""
    text = re.sub("^#.*", "", path.read_text(encoding="utf-8"), flags=re.M)
    for code, name, moves in re.findall(r'^([A-E]\d\d)\S* "(.*?)"\s+([^*]*)\*', text, re.M):
        parts = (part.strip() for part in re.split("[:,]", name))
        labels = [part for part in parts if not re.match(r"\d", part)]
        yield " ".join(re.sub(r"\d+\.+", " ", moves).split()), [code, *labels]


def read_kanji(path: Path) -> Iterator[Row]:
    """Meanings of characters, and their radicals and Sino-Japanese readings, in katakana."""
    for line in path.read_text(encoding="euc_jp").splitlines()[1:]:  # after a title
        fields = line.split("{")[0].split()[2:]  # after the character and its code
        radicals = [f"radical {field[1:]}" for field in fields if re.fullmatch(r"B\d+", field)]
        readings = [field for field in fields if re.match("[\u30a0-\u30ff]", field)]
        yield ", ".join(re.findall(r"\{(.*?)\}", line)), radicals + readings


def read_emoji(path: Path) -> Iterator[Row]:
    """Names of emoji and signs without those of a skin tone, and their English keywords."""
    names, _ = names_and_keywords(path)
    english, keywords = names_and_keywords(path.with_name("en.xml"))
    for sign in english:
        if sign in names and not SKIN_TONES.search(sign):
            yield names[sign], keywords.get(sign, [])


def names_and_keywords(path: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The names and the keywords of signs in a file of CLDR and in the one derived from it."""
    names: dict[str, str] = {}
    keywords: dict[str, list[str]] = {}
    for file in (path, path.parent.with_name("annotationsDerived") / path.name):
        if file == path or file.exists():
            for entry in ElementTree.parse(file).iter("annotation"):
                sign, text = entry.get("cp", ""), entry.text
                if not text or text == INHERITED:
                    continue
                if entry.get("type") == "tts":  # text to speech
                    names[sign] = text
                else:
                    keywords[sign] = [word.strip() for word in text.split("|")]
    return names, keywords


def read_unihan(folder: Path) -> Iterator[Row]:
    """Definitions of characters, and their radicals; some have several."""
    radicals = property_of(folder / "Unihan_IRGSources.txt.bz2", "kRSUnicode")
    definitions = property_of(folder / "Unihan_Readings.txt.bz2", "kDefinition")
    for character, text in definitions.items():
        found = re.findall(r"(\d+)'*\.", radicals.get(character, ""))  # radical.strokes
        yield text, [f"radical {number}" for number in found]


def property_of(path: Path, name: str) -> dict[str, str]:
    """Code of a character -> its value, of lines of a code, a name and a value."""
    with bz2.open(path, "rt", encoding="utf-8") as lines:
        fields = [line.strip().split("\t") for line in lines if f"\t{name}\t" in line]
    return {code: value for code, _, value in fields}


def read_unicode(folder: Path) -> Iterator[Row]:
    """Names of characters, and their block, category, direction and forms."""
    blocks = [
        (int(start, 16), name)
        for start, name in re.findall(
            r"^([0-9A-F]+)\.\.[0-9A-F]+; (.*)", (folder / "Blocks.txt").read_text("utf-8"), re.M
        )
    ]
    for line in (folder / "UnicodeData.txt").read_text("utf-8").splitlines():
        code, name, category, _, direction, mapping, *_ = line.split(";")
        if not name.startswith("<") and "IDEOGRAPH-" not in name:
            block = blocks[bisect_right(blocks, int(code, 16), key=lambda start: start[0]) - 1][1]
            forms = [f"form {form}" for form in re.findall(r"<(\w+)>", mapping)]
            labels = [f"block {block}", f"category {category}", f"direction {direction}"]
            yield name, labels + forms


KINDS: dict[Kind, Callable[[Path], Iterator[Row]]] = {
    "openings": read_openings,
    "kanji": read_kanji,
    "emoji": read_emoji,
    "unihan": read_unihan,
    "unicode": read_unicode,
}
"""Kind of the texts -> what reads them, and the labels of each."""


if __name__ == "__main__":
    run_command(main, description=__doc__)
