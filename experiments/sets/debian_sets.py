"""Texts and labels from the files `Packages` and `Translation-en` of a Debian mirror."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.sets.csv_rows import Row, words

__all__ = ["needs", "read_depends", "read_maintainers", "read_packages", "read_tags"]


def fields(files: Sequence[Path], pattern: str) -> Iterator[tuple[str, str]]:
    """Names of packages, and a field of theirs, from files of stanzas."""
    for file in files:
        for stanza in file.read_text(encoding="utf-8").split("\n\n"):
            name = re.search(r"^Package: (.+)$", stanza, re.M)
            field = re.search(pattern, stanza, re.M)
            if name and field:
                yield name[1], " ".join(field[1].split())


def read_packages(files: Sequence[Path]) -> Iterator[Row]:
    """The first lines of descriptions, and the words of the package's name."""
    for name, text in fields(files, r"^Description(?:-en)?: (.+)$"):
        yield text, words(name)


def read_tags(files: Sequence[Path]) -> Iterator[Row]:
    """Whole descriptions, and the tags of the package; its last description counts."""
    tags = dict(fields(files, r"^Tag: (.+(?:\n .+)*)$"))
    texts = dict(fields(files, r"^Description-en: (.+(?:\n .+)*)$"))
    for name, text in texts.items():
        if name in tags:
            yield text, tags[name].split(", ")


def read_maintainers(files: Sequence[Path]) -> Iterator[Row]:
    """The first lines of descriptions, and the name of the package's maintainer."""
    names = dict(fields(files, r"^Maintainer: ([^<\n]+)"))
    for name, text in fields(files, r"^Description(?:-en)?: (.+)$"):
        if name in names:
            yield text, [names[name].strip().replace(";", " ")]


def needs(files: Sequence[Path]) -> dict[str, list[str]]:
    """For each package, what it depends on or recommends; of alternatives the first."""
    found: dict[str, list[str]] = {}
    for field in ("Depends", "Recommends"):
        for name, text in fields(files, rf"^{field}: (.+)$"):
            # Without versions and architectures.
            found.setdefault(name, []).extend(
                re.split(r"[ :(|]", one)[0] for one in text.split(", ")
            )
    return {name: list(dict.fromkeys(others)) for name, others in found.items()}


def read_depends(files: Sequence[Path]) -> Iterator[Row]:
    """Whole descriptions, and the packages that the package depends on or recommends."""
    needed = needs(files)
    for name, text in fields(files, r"^Description-en: (.+(?:\n .+)*)$"):
        yield text, needed.get(name, [])
