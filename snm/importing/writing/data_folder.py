"""Converts rows of an import format into a data folder.

Label names get ids, texts become features, and each point goes to train or test.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.formats.foreign import Row
from snm.data.formats.repository_text.writer import TextWriter
from snm.data.names import MISSING_VALUES
from snm.errors import InputError
from snm.importing.items import Overlap
from snm.importing.passes import OnProgress
from snm.importing.writing.label_ids import LabelIds
from snm.importing.writing.repeated_texts import RepeatedTexts
from snm.importing.writing.unspaced import Unspaced
from snm.system.files import disk

__all__ = ["Counts", "Source", "write_data_folder"]

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


class Counts:
    """Counts the points of a data folder as they are written.

    Attributes:
      train: number of training points.
      test: number of test points.
      features: number of features d.
      labels: names and ids of the labels.
      without_labels: number of points without a label.
      without_features: number of points without a feature.
      without_text: number of points whose text is empty.
      test_unknown: number of test points without a feature whose text is not empty.
      missing_values: number of points of each label whose name stands for a missing value in other
        programs, but of no known label.
      overlaps: how often labels are items of their points, by each of `Source.item_marks`.
      repeated: points that repeat the text of another, with another label or with the same ones.
      unspaced: letters that have no spaces between their words.
    """

    def __init__(self, source: Source):
        self.train = self.test = 0
        self.features = source.num_features
        self.labels = LabelIds(source.known_labels, source.new_labels)
        self.without_labels = self.without_features = self.without_text = 0
        self.test_unknown = 0
        self.missing_values = collections.Counter[str]()
        self.overlaps = [Overlap(mark) for mark in source.item_marks]
        self.repeated, self.unspaced = RepeatedTexts(), Unspaced()
        self._weights = [np.zeros(0, np.float32)] if source.weighted else None
        self._looks_missing = MISSING_VALUES.difference(source.known_labels).__contains__

    def add(self, chunk: _Chunk) -> None:
        """Counts the points of a chunk."""
        rows = chunk.rows
        tests = int(np.count_nonzero(chunk.is_test))
        self.test += tests
        self.train += len(rows) - tests
        no_text = np.array([row.text is not None and not row.text.strip() for row in rows], bool)
        no_feature = _empty_rows(chunk.features)
        self.without_labels += int(np.count_nonzero(_empty_rows(chunk.labels)))
        self.without_features += int(np.count_nonzero(no_feature))
        self.without_text += int(np.count_nonzero(no_text))
        self.test_unknown += int(np.count_nonzero(no_feature & ~no_text & chunk.is_test))
        if self._weights is not None:
            weights = [row.weight for row in chunk.training_rows()]
            self._weights.append(np.array(weights, np.float32))
        for overlap in self.overlaps:
            overlap.add(rows)
        self.repeated.add(rows)
        self.unspaced.add(rows)
        names = itertools.chain.from_iterable(row.labels for row in rows)
        self.missing_values.update(filter(self._looks_missing, names))

    @property
    def weights(self) -> NDArray[np.float32] | None:
        """The weights of the training points, float32 [train], or None if the rows have none."""
        return None if self._weights is None else np.concatenate(self._weights)


def write_data_folder(out: Path, source: Source, on_progress: OnProgress) -> Counts:
    """Writes `train.txt`, `train_rows.txt`, `labels.txt` and, if there are test points, `test.txt`.

    `train_rows.txt` has the file and line of each training point, because explanations refer to
    training points by number. Known labels have the first ids; others follow in order of first
    occurrence. Weights are written to `weights.txt`.

    Args:
      out: an empty folder.
      source: what to write.
      on_progress: called with the number of rows that are done.

    Returns:
      the counts of the written points.

    Raises:
      InputError: no training point, no label, or no weight above 0.
    """
    counts = Counts(source)
    with (
        TextWriter(out / "train.txt") as train,
        TextWriter(out / "test.txt") as test,
        # A file name may not be valid UTF-8.
        (out / "train_rows.txt").open(
            "w", encoding="utf-8", errors="backslashreplace", newline="\n"
        ) as places,
    ):
        for chunk in _chunks(source, counts.labels):
            counts.add(chunk)
            for writer, chosen in ((train, ~chunk.is_test), (test, chunk.is_test)):
                writer.append(chunk.features[chosen], chunk.labels[chosen])
            places.writelines(f"{row.where}\n" for row in chunk.training_rows())
            on_progress(train.rows + test.rows)
        for writer in (train, test):
            writer.finish(source.num_features, len(counts.labels.names))
    weights, names = counts.weights, counts.labels.names
    if not counts.train:
        raise InputError(source.name, "no training point", "at least one")
    if not names:
        raise InputError(source.name, "no label", "labels (see --labels and --format)")
    if weights is not None:
        if not weights.any():
            raise InputError("weights", "only zeros", "a weight above 0 (see --weight-column)")
        lines = "".join(f"{weight:.9g}\n" for weight in weights)
        disk.write(out / "weights.txt", lines.encode())
    if not counts.test:
        disk.remove(out / "test.txt")
    disk.write(out / "labels.txt", "\n".join((*names, "")).encode())
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


def _empty_rows(matrix: csr_matrix) -> NDArray[np.bool_]:
    return np.diff(matrix.indptr) == 0
