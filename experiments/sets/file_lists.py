"""Makes large data sets from the list of files of a Debian mirror: short texts, and a recommender.

    python -m experiments.sets.file_lists files Contents-all.gz --out files.csv
    python -m experiments.sets.file_lists folders Contents-all.gz --out folders.csv

The list names the packages that hold each file (dists/bookworm/main/Contents-all.gz has 5.7 million
lines). A point of `files` is the words of a file's name, and its labels are the packages with such
a file; texts with more than 20 packages are left out, and a package has at most 200 points.
`folders` is for recommenders: a random half of the names in a folder is the text, the others are
the labels. Names occur in three folders or more, and equal folders count once. Rows are shuffled
with seed 0. To import:

    snm data import files.csv --label-separator ';' --test-fraction 0.1 --out files
    snm data import folders.csv --same-items --label-separator ';' --test-fraction 0.1 --out folders
"""

from __future__ import annotations

import gzip
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import tyro

from experiments.sets.csv_rows import Row, halves, write_rows
from experiments.shared.command_line import run_command
from snm.errors import InputError

WORDS = range(3, 21)  # of a file's name, each of two characters or more
MOST_PACKAGES = 20  # with a file of the same words
MOST_POINTS = 200  # of a package
NAMES = range(3, 201)  # of a folder that is taken
FEWEST_FOLDERS = 3  # that a name occurs in

Kind = Literal["files", "folders"]


def main(
    kind: tyro.conf.Positional[Kind],
    path: tyro.conf.Positional[Path],
    out: Path,
) -> None:
    """Writes the CSV.

    Args:
      kind: what texts and labels are.
      path: a list of files, compressed with gzip.
      out: a CSV file to write, with the columns text and labels.
    """
    if not path.exists():
        raise InputError(str(path), "no such file", "a list of files, compressed with gzip")
    write_rows(list(KINDS[kind](path)), out, f"{path}: {kind}", fewest=1)


def listed(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Folder, name and packages of each file."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                continue
            file, packages = line.rsplit(None, 1)
            folder, _, name = file.rpartition("/")
            yield folder, name, [package.rsplit("/", 1)[-1] for package in packages.split(",")]


def read_files(path: Path) -> Iterator[Row]:
    """The words of file names, and the packages that have such a file."""
    packages: dict[str, set[str]] = defaultdict(set)
    for _, name, found in listed(path):
        words = re.findall("[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)
        kept = [word.lower() for word in words if len(word) > 1]
        if len(kept) in WORDS:
            packages[" ".join(kept)].update(found)
    texts = sorted(text for text, found in packages.items() if len(found) <= MOST_PACKAGES)
    random.Random(0).shuffle(texts)
    points: Counter[str] = Counter()
    for text in texts:
        if all(points[package] < MOST_POINTS for package in packages[text]):
            points.update(packages[text])
            yield text, sorted(packages[text])


def read_folders(path: Path) -> Iterator[Row]:
    """Half of the names in a folder, and the others."""
    folders: dict[str, set[str]] = defaultdict(set)
    for folder, name, _ in listed(path):
        if not re.search("[ ,;]", name):
            folders[folder].add(name)
    counts = Counter(name for names in folders.values() for name in names)
    frequent = (
        tuple(sorted(name for name in names if counts[name] >= FEWEST_FOLDERS))
        for names in folders.values()
    )
    yield from halves(list(names) for names in dict.fromkeys(frequent) if len(names) in NAMES)


KINDS: dict[Kind, Callable[[Path], Iterator[Row]]] = {"files": read_files, "folders": read_folders}

if __name__ == "__main__":
    run_command(main, __doc__)
