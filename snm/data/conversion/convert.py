"""Converts rows of an import format into a data folder.

Label names get ids, texts become features, and each point goes to train or test.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.conversion.items import Overlap
from snm.data.conversion.label_ids import LabelIds
from snm.data.conversion.passes import OnProgress
from snm.data.conversion.repeated_texts import RepeatedTexts
from snm.data.conversion.unspaced import Unspaced
from snm.data.formats.foreign import Row
from snm.data.formats.repository_text.writer import TextWriter
from snm.data.names import MISSING_VALUES, case_variants
from snm.errors import InputError
from snm.system.files import disk

__all__ = ["Counts", "Source", "build"]

_CHUNK = 2048  # rows in memory at once


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """The source of a data folder.

    Attributes:
      name: where the training points come from, for messages.
      files: (name, rows) for each file to read; read once.
      part_of: (name of the file, 0-based row number) -> `train` or `test`.
      transform: rows -> float32 CSR [rows, d].
      num_features: number of features d.
      known_labels: names of known labels, in the order of their ids.
      new_labels: whether other labels are appended to these, or dropped from their points.
      weighted: whether to write the weights of the training points.
      item_marks: possible separators of items in texts, or None for numeric features. For each,
        `Overlap` counts the labels that are items of their points.
    """

    name: str
    files: Iterable[tuple[str, Iterable[Row]]]
    part_of: Callable[[str, int], str]
    transform: Callable[[list[Row]], csr_matrix]
    num_features: int
    known_labels: Sequence[str] = ()
    new_labels: Literal["append", "drop"] = "append"
    weighted: bool = False
    item_marks: Sequence[str | None] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Counts:
    """Sizes of the data that `build` wrote.

    Attributes:
      train: number of training points.
      test: number of test points.
      features: number of features d.
      labels: number of labels K.
      without_labels: number of points without a label.
      without_features: number of points without a feature.
      without_text: number of points whose text is empty.
      new_labels: names that were not in `known_labels`, in order of first occurrence; empty if
        there were no known labels.
      weights: float32 [n], the weights of the training points, or None if the rows have none.
      common_separator: a usual separator that most label names hold, or most of `new_labels` if
        there are some; or None.
      list_piece: a label name, if most look like lists or their pieces, such as `['a'`; or None.
      are_numbers: whether all label names are integers.
      missing_values: number of points of each label whose name stands for a missing value in other
        programs, but of none of `known_labels`.
      case_variants: says which names differ only in case, if there were no known labels.
      overlaps: how often labels are items of their points, by each of `item_marks`.
      repeated: points that repeat the text of another, with another label or with the same ones.
      unspaced: share of the letters that have no spaces between their words.
    """

    train: int
    test: int
    features: int
    labels: int
    without_labels: int
    without_features: int
    without_text: int
    new_labels: tuple[str, ...]
    weights: NDArray[np.float32] | None
    common_separator: str | None
    list_piece: str | None
    are_numbers: bool
    missing_values: Mapping[str, int]
    case_variants: str | None
    overlaps: Sequence[Overlap]
    repeated: RepeatedTexts
    unspaced: float


def build(out: Path, source: Source, on_progress: OnProgress) -> Counts:
    """Writes `train.txt`, `train_rows.txt`, `labels.txt` and, if there are test points, `test.txt`.

    `train_rows.txt` has the file and line of each training point, because explanations refer to
    training points by number. Known labels have the first ids; others follow in order of first
    occurrence. Weights are written to `weights.txt`.

    Args:
      out: an empty folder.
      source: what to write.
      on_progress: called with the number of rows that are done.

    Returns:
      the sizes of the written data.

    Raises:
      InputError: no training point, no label, or no weight above 0.
    """
    ids, tally = LabelIds(source.known_labels, source.new_labels), _Tally(source)
    with (
        TextWriter(out / "train.txt") as train,
        TextWriter(out / "test.txt") as test,
        # A file name may not be valid UTF-8.
        (out / "train_rows.txt").open(
            "w", encoding="utf-8", errors="backslashreplace", newline="\n"
        ) as places,
    ):
        for chunk in _chunks(source, ids):
            tally.add(chunk)
            for writer, chosen in ((train, ~chunk.is_test), (test, chunk.is_test)):
                writer.append(chunk.features[chosen], chunk.labels[chosen])
            places.writelines(f"{row.where}\n" for row in chunk.training_rows())
            on_progress(train.rows + test.rows)
        for writer in (train, test):
            writer.finish(source.num_features, len(ids.names))
    counts = tally.counts(ids)
    if not counts.train:
        raise InputError(source.name, "no training point", "at least one")
    if not counts.labels:
        raise InputError(source.name, "no label", "labels (see --labels and --format)")
    if counts.weights is not None:
        if not counts.weights.any():
            raise InputError("weights", "only zeros", "a weight above 0 (see --weight-column)")
        lines = "".join(f"{weight:.9g}\n" for weight in counts.weights)
        disk.write(out / "weights.txt", lines.encode())
    if not counts.test:
        disk.remove(out / "test.txt")
    disk.write(out / "labels.txt", "\n".join((*ids.names, "")).encode())
    return counts


class _Chunk(NamedTuple):
    """A chunk of n points.

    Attributes:
      rows: the n rows, with labels spelled like the known ones.
      is_test: bool [n], whether each is a test point.
      features: float32 CSR [n, d].
      labels: float32 CSR [n, labels so far].
    """

    rows: list[Row]
    is_test: NDArray[np.bool_]
    features: csr_matrix
    labels: csr_matrix

    def training_rows(self) -> Iterator[Row]:
        return itertools.compress(self.rows, ~self.is_test)


def _chunks(source: Source, ids: LabelIds) -> Iterator[_Chunk]:
    """The points of all files in chunks; gives ids to new labels."""
    for name, rows in source.files:
        numbered = enumerate(rows)
        while numbered_rows := list(itertools.islice(numbered, _CHUNK)):
            is_test = np.array(
                [source.part_of(name, number) == "test" for number, _ in numbered_rows]
            )
            points = ids.respell([row for _, row in numbered_rows])
            yield _Chunk(points, is_test, source.transform(points), ids.matrix(points))


class _Tally:
    """Counts points as they are written."""

    def __init__(self, source: Source):
        self._source = source
        self._train = self._test = 0
        self._without_labels = self._without_features = self._without_text = 0
        self._weights = [np.zeros(0, np.float32)]
        self._overlaps = [Overlap(mark) for mark in source.item_marks]
        self._repeated, self._unspaced = RepeatedTexts(), Unspaced()
        self._missing_values = collections.Counter[str]()
        self._looks_missing = MISSING_VALUES.difference(source.known_labels).__contains__

    def add(self, chunk: _Chunk) -> None:
        """Counts the points of a chunk."""
        rows = chunk.rows
        tests = int(np.count_nonzero(chunk.is_test))
        self._test += tests
        self._train += len(rows) - tests
        self._without_labels += _empty_rows(chunk.labels)
        self._without_features += _empty_rows(chunk.features)
        self._without_text += sum(row.text is not None and not row.text.strip() for row in rows)
        if self._source.weighted:
            weights = [row.weight for row in chunk.training_rows()]
            self._weights.append(np.array(weights, np.float32))
        for overlap in self._overlaps:
            overlap.add(rows)
        self._repeated.add(rows)
        self._unspaced.add(rows)
        names = itertools.chain.from_iterable(row.labels for row in rows)
        self._missing_values.update(filter(self._looks_missing, names))

    def counts(self, ids: LabelIds) -> Counts:
        """The counts of all points; `ids` has their labels."""
        source, numbers = self._source, ids.are_numbers
        compared = not (numbers or source.known_labels)
        return Counts(
            train=self._train,
            test=self._test,
            features=source.num_features,
            labels=len(ids.names),
            without_labels=self._without_labels,
            without_features=self._without_features,
            without_text=self._without_text,
            new_labels=ids.new if source.known_labels else (),
            weights=np.concatenate(self._weights) if source.weighted else None,
            common_separator=ids.common_separator,
            list_piece=ids.list_piece,
            are_numbers=numbers,
            missing_values=self._missing_values,
            case_variants=case_variants(ids.names) if compared else None,
            overlaps=self._overlaps,
            repeated=self._repeated,
            unspaced=self._unspaced.share,
        )


def _empty_rows(matrix: csr_matrix) -> int:
    return int(np.count_nonzero(np.diff(matrix.indptr) == 0))
