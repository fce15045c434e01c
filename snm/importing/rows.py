"""How the files of an import are read: their rows, and which of them are for test."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping

import numpy as np

from snm.data.formats.detection import detect_all
from snm.data.formats.foreign import READERS, Reader, ReadOptions, Row, read_files
from snm.data.formats.label_lists import first_label_lists
from snm.data.names import Spellings, normalize_name
from snm.data.vectorizer import Vectorizer
from snm.errors import InputError
from snm.importing.checks import check_format
from snm.importing.items import normalize_row
from snm.importing.label_names import LabelNames, with_names
from snm.importing.like import LikeIds, read_like
from snm.importing.options import ImportOptions, display_names

__all__ = ["Reading", "Rows"]


@dataclasses.dataclass(frozen=True)
class Reading:
    """How files are read: as the options say, or as those were that `--like` was made of.

    Attributes:
      form: a key of `READERS`.
      like: what `--like` names, or None.
      columns: fields that hold the text.
      labels: fields that hold the labels.
      label_separator: what stands between labels; None is the default of the format.
      item_separator: of texts that are lists of items; None where they are not.
      label_lists: the first cell of each field of labels in which it is a list, as all other cells
        of the field then must be.
    """

    form: str
    like: LikeIds | None
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    label_separator: str | None
    item_separator: str | None
    label_lists: Mapping[str, str]

    @property
    def reader(self) -> Reader:
        """The reader of the format."""
        return READERS[self.form]

    @classmethod
    def of(cls, options: ImportOptions) -> Reading:
        """What the options ask for; looks into the files for their format.

        Raises:
          InputError: an unknown format, options that it has no use for, or a run or data whose ids
            cannot be taken.
        """
        form = options.format
        if form == "auto":
            form = detect_all(options.source, options.label_file)
        check_format(options, form)
        like = None if options.like is None else read_like(options.like)
        if like is not None and READERS[form].entries:
            raise InputError(
                display_names(options.source), f"features ({form})", "texts, for --like"
            )
        columns, labels, separator = options.text, options.labels, options.label_separator
        mark = options.item_separator if options.same_items else None
        if like is not None:
            texts = like.vectorizer
            columns, labels = columns or texts.columns or (), labels or texts.label_columns or ()
            separator = separator or texts.label_separator
            mark = texts.item_separator
        columns, labels, label_lists = columns or ("text",), labels or ("labels",), {}
        if READERS[form].label_lists and separator is None:
            label_lists = first_label_lists(options.source, columns, labels)
        return cls(form, like, columns, labels, separator, mark, label_lists)

    def record_in(self, texts: Vectorizer) -> Vectorizer:
        """The vectorizer, with how later files are to be read."""
        fields = self.reader.fields
        return dataclasses.replace(
            texts,
            columns=self.columns if fields else None,
            label_columns=self.labels if fields else None,
            label_separator=self.label_separator,
        )


class Rows:
    """Each pass reads the files again, so that no text stays in memory.

    Args:
      options: what to read.
      reading: how to read it.
      names: names of labels that are numbers; None where labels are names.

    Attributes:
      spellings: of the names that were read.
    """

    def __init__(self, options: ImportOptions, reading: Reading, names: LabelNames | None):
        self._options, self._reading, self._names = options, reading, names
        self.spellings = Spellings()
        # Numbers have one spelling, and there may be millions.
        numbers = names is not None or reading.reader.entries
        self._name = normalize_name if numbers else self.spellings.name
        self._drawn = _Draws(options.seed, options.test_fraction)
        self._parts = ("train", "test") if options.test else ("train",)

    def read_part(self, part: str) -> Iterator[Row]:
        """The rows of a part: `train` is of SOURCE, `test` of what `--test` names."""
        options = self._options
        paths, labels, weight = options.source, options.label_file, options.weight_column
        if part == "test":
            paths, labels, weight = options.test, options.test_label_file, None
        read_options = ReadOptions(
            text=self._reading.columns,
            labels=self._reading.labels,
            label_separator=self._reading.label_separator,
            label_lists=self._reading.label_lists,
            label_file=labels,
            weight=weight,
            item_separator=self._reading.item_separator,
            name=self._name,
        )
        rows = read_files(paths, self._reading.form, read_options)
        if (mark := self._reading.item_separator) is not None:
            rows = map(functools.partial(normalize_row, separator=mark, name=self._name), rows)
        return rows if self._names is None else with_names(rows, self._names)

    def part_of(self, part: str, number: int) -> str:
        """Whether a row of a file is for `train` or `test`; rows are counted from 0."""
        return "test" if part == "test" or self._drawn.is_test(number) else "train"

    def training(self) -> Iterator[Row]:
        """The rows of training points."""
        rows = enumerate(self.read_part("train"))
        return (row for number, row in rows if not self._drawn.is_test(number))

    def every(self) -> Iterator[Row]:
        """The rows of all files."""
        return (row for part in self._parts for row in self.read_part(part))

    def by_part(self, kept: frozenset[str] | None) -> Iterator[tuple[str, Iterator[Row]]]:
        """The name and the rows of each file, without labels that are not kept; None keeps all."""
        for part in self._parts:
            rows = self.read_part(part)
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
