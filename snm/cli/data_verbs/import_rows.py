"""The rows of what is imported, part by part, and which of them are for test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from snm.data.conversion.items import as_items
from snm.data.conversion.label_names import LabelNames, with_names
from snm.data.formats.foreign import ReadOptions, Row, read_rows

if TYPE_CHECKING:
    from snm.cli.data_verbs.import_files import Import

__all__ = ["Rows"]


class Rows:
    """Each pass reads the files again, so that no text stays in memory.

    Args:
      command: what to read.
      form: a key of `READERS`.
      columns: fields that hold the text.
      names: names of labels that are numbers; None where labels are names.
      item_separator: of texts that are lists of items; None where they are not.
    """

    def __init__(
        self,
        command: Import,
        form: str,
        columns: tuple[str, ...],
        names: LabelNames | None,
        item_separator: str | None = None,
    ):
        self._command, self._form, self._columns, self._names = command, form, columns, names
        self._item_separator = item_separator
        self._drawn = _Draws(command.seed, command.test_fraction)
        self._parts = ("train",) if command.test is None else ("train", "test")

    def of(self, part: str) -> Iterator[Row]:
        """The rows of a file: `train` is SOURCE, `test` what `--test` names."""
        command = self._command
        path, labels, weight = command.source, command.label_file, command.weight_column
        if part == "test":
            assert command.test is not None
            path, labels, weight = command.test, command.test_label_file, None
        options = ReadOptions(
            text=self._columns,
            labels=command.labels,
            label_separator=command.label_separator,
            label_file=labels,
            weight=weight,
            item_separator=self._item_separator,
        )
        rows = read_rows(path, self._form, options)
        if self._item_separator is not None:
            rows = map(as_items, rows)
        return rows if self._names is None else with_names(rows, self._names)

    def part_of(self, part: str, number: int) -> str:
        """Whether a row of a file is for `train` or `test`; rows are counted from 0."""
        return "test" if part == "test" or self._drawn.is_test(number) else "train"

    def training(self) -> Iterator[Row]:
        """The rows of training points."""
        rows = enumerate(self.of("train"))
        return (row for number, row in rows if not self._drawn.is_test(number))

    def every(self) -> Iterator[Row]:
        """The rows of all files."""
        return (row for part in self._parts for row in self.of(part))

    def by_part(self, kept: frozenset[str] | None) -> Iterator[tuple[str, Iterator[Row]]]:
        """The name and the rows of each file, without labels that are not kept; None keeps all."""
        for part in self._parts:
            rows = self.of(part)
            yield part, rows if kept is None else _with_labels(rows, kept)


def _with_labels(rows: Iterator[Row], kept: frozenset[str]) -> Iterator[Row]:
    for row in rows:
        yield row._replace(labels=tuple(name for name in row.labels if name in kept))


class _Draws:
    """Whether row n is a test point: the n-th number of a seeded stream, kept as bytes."""

    def __init__(self, seed: int, fraction: float):
        self._random, self._fraction = np.random.default_rng(seed), fraction
        self._known = bytearray()

    def is_test(self, number: int) -> bool:
        if not self._fraction:
            return False
        while number >= len(self._known):
            self._known += (self._random.random(1 << 16) < self._fraction).tobytes()
        return bool(self._known[number])
