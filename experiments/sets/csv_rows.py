"""Rows of a text data set, and the CSV that `snm data import` reads."""

from __future__ import annotations

import csv
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from snm.errors import InputError
from snm.system.files.atomic import atomic_file

__all__ = ["Row", "halves", "words", "write_rows"]

FEWEST = 3  # rows that a label needs

Row = tuple[str, Sequence[str]]
"""A text and its labels."""


def write_rows(rows: Sequence[Row], out: Path, source: str, fewest: int = FEWEST) -> None:
    """Writes the CSV, shuffled, without labels of fewer rows than `fewest`.

    Args:
      rows: texts and their labels.
      out: the file to write.
      source: where the rows come from, for messages.
      fewest: rows that a label needs.

    Raises:
      InputError: no row is left.
    """
    counts = Counter(label for _, labels in rows for label in set(labels))
    kept = []
    for text, labels in rows:
        frequent = [label for label in dict.fromkeys(labels) if counts[label] >= fewest]
        if frequent:
            kept.append((text, ";".join(frequent)))
    if not kept:
        raise InputError(source, f"no text with a label of {fewest} or more rows", "such texts")
    random.Random(0).shuffle(kept)
    with atomic_file(out) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "labels"), *kept])
    print(f"{len(kept):,} texts, {sum(n >= fewest for n in counts.values()):,} labels in {out}")


def halves(baskets: Iterable[list[str]]) -> Iterator[Row]:
    """A random half of each basket as a text with commas, and the others as labels."""
    rng = random.Random(0)
    for basket in baskets:
        rng.shuffle(basket)
        middle = len(basket) // 2
        yield ",".join(basket[:middle]), basket[middle:]


def words(name: str) -> list[str]:
    """Runs of three letters or more, in lower case."""
    return re.findall(r"[a-z]{3,}", name.lower())
