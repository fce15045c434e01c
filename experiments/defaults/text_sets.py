"""Makes text data sets whose labels are words, from what a machine has.

    python -m experiments.defaults.text_sets docstrings PATH ... --out docstrings.csv
    python -m experiments.defaults.text_sets parameters PATH ... --out parameters.csv
    python -m experiments.defaults.text_sets modules PATH ... --out modules.csv
    python -m experiments.defaults.text_sets packages PATH ... --out packages.csv

The first three read Python packages, for example a folder `site-packages`: docstrings, and as
labels the words of the function's or class's name, the names of a function's parameters, or the
module and the packages that it is in. The last reads files `Packages` of a Debian mirror: one-line
descriptions, and the words of the package's name. Labels of fewer than three texts are left out.
Rows are shuffled with seed 0. To import:

    snm data import FILE --label-separator ';' --test-fraction 0.1 --out DATA
"""

from __future__ import annotations

import ast
import csv
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import tyro

from snm.system.files import whole_file

FEWEST = 3
LONGEST = 300  # characters of a docstring

Row = tuple[str, Sequence[str]]


def main(
    kind: tyro.conf.Positional[Literal["docstrings", "parameters", "modules", "packages"]],
    paths: tyro.conf.Positional[list[Path]],
    out: Path,
) -> None:
    """Writes the CSV.

    Args:
      kind: what texts and labels are.
      paths: folders of Python packages, or files `Packages`.
      out: a CSV file to write, with the columns text and labels.
    """
    rows = distinct(of_packages(paths) if kind == "packages" else of_python(kind, paths))
    counts = Counter(label for _, labels in rows for label in set(labels))
    kept = []
    for text, labels in rows:
        frequent = [label for label in dict.fromkeys(labels) if counts[label] >= FEWEST]
        if frequent:
            kept.append((text, ";".join(frequent)))
    random.Random(0).shuffle(kept)
    with whole_file(out) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "labels"), *kept])
    print(f"{len(kept):,} texts, {sum(n >= FEWEST for n in counts.values()):,} labels in {out}")


def distinct(rows: Iterator[Row]) -> list[Row]:
    """The first row of each text of 15 characters or more."""
    found: dict[str, Sequence[str]] = {}
    for text, labels in rows:
        if len(text) >= 15:
            found.setdefault(text, labels)
    return list(found.items())


def of_python(kind: str, folders: Sequence[Path]) -> Iterator[Row]:
    """Docstrings of functions and classes, or for `parameters` of functions alone."""
    for file in sorted(path for folder in folders for path in folder.rglob("*.py")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(file.read_text(encoding="utf-8", errors="ignore"))
        except (SyntaxError, ValueError, RecursionError):
            continue  # for another version of Python
        places = file.with_suffix("").parts
        if "site-packages" in places:
            places = places[places.index("site-packages") + 1 :]
        modules = ["/".join(places[: i + 1]) for i in range(len(places)) if places[i] != "__init__"]
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            text = " ".join((ast.get_docstring(node) or "").split())[:LONGEST]
            if kind == "docstrings":
                yield text, words(re.sub(r"([a-z])([A-Z])", r"\1 \2", node.name))
            elif kind == "modules":
                yield text, modules
            elif isinstance(node, ast.FunctionDef):
                names = [one.arg for one in (*node.args.args, *node.args.kwonlyargs)]
                yield text, [name for name in names if name not in ("self", "cls")]


def of_packages(files: Sequence[Path]) -> Iterator[Row]:
    """Descriptions of packages, from files of stanzas."""
    for file in files:
        for stanza in file.read_text(encoding="utf-8").split("\n\n"):
            name = re.search(r"^Package: (.+)$", stanza, re.M)
            text = re.search(r"^Description(?:-en)?: (.+)$", stanza, re.M)
            if name and text:
                yield text[1], words(name[1])


def words(name: str) -> list[str]:
    """Runs of three letters or more, in lower case."""
    return re.findall(r"[a-z]{3,}", name.lower())


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
