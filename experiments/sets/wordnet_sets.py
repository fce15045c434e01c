"""Texts and labels from the files `data.noun` and `data.verb` of WordNet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.sets.csv_rows import Row, words

__all__ = ["read_glosses", "read_hypernyms"]


def senses(files: Sequence[Path]) -> dict[str, tuple[str, list[str], list[str]]]:
    """The senses of WordNet: definition, words, and the ids of the more general senses."""
    found = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith(" "):
                continue  # the licence
            head, gloss = line.split(" | ", 1)
            part = head.split()
            pointers = 5 + 2 * int(part[3], 16)  # the number of words is hexadecimal
            general = [part[i + 2] + part[i + 1] for i in range(pointers, len(part) - 3)
                       if part[i] in ("@", "@i")]  # fmt: skip
            found[part[2] + part[0]] = (
                gloss.split('; "')[0].strip(),
                part[4 : pointers - 1 : 2],
                general,
            )
    return found


def read_glosses(files: Sequence[Path]) -> Iterator[Row]:
    """Definitions, and the words that they define."""
    for gloss, defined, _ in senses(files).values():
        yield gloss, [one for word in defined for one in words(word)]


def read_hypernyms(files: Sequence[Path]) -> Iterator[Row]:
    """Definitions, and all senses that are more general, by their first word and their place."""
    found = senses(files)
    for gloss, _, general in found.values():
        above, left = dict.fromkeys(general), list(general)
        while left:
            more = [one for one in found[left.pop()][2] if one not in above]
            above.update(dict.fromkeys(more))
            left += more
        yield gloss, [f"{found[one][1][0]}.{one}" for one in above]
