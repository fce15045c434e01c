"""What each process reads of a data set, and what all find out of it together.

Of several processes one hashes the files, parses them into the cache where it lacks them, and the
others find them there. Each checks some of the arrays, and then reads of the training points only
those of its own places in the batches, once for the counts over an equal part of all points and
once to keep. With one process there is nothing to share, and all is read at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.dataset import Dataset
from snm.data.load import SYNTHETIC, key_of, load, load_mapped
from snm.data.statistics import duplicate_test_rows as duplicates_of
from snm.data.weighting import Weighting, document_counts
from snm.distributed.processes import first, first_to_say, of_first, several, summed, wait
from snm.errors import InputError

__all__ = ["column_counts", "duplicate_test_rows", "fit_weighting", "label_frequency",
           "load_together", "seen_labels"]  # fmt: skip

_ROWS = 1 << 16  # looked at together


def load_together(source: str | Path) -> Dataset:
    """A data set, of which several processes leave on the disk what they do not use.

    Where they do not share a cache that can be written, each loads all of it.

    Raises:
      InputError: as `data.dataset.load`, in every process.
    """
    if not several() or source == SYNTHETIC:
        return load(source)
    key = _key_of_first(source)
    for attempt in range(0 if key is None else 2):
        if attempt and first():
            with contextlib.suppress(InputError):  # which is then raised by all
                load(source)  # into the cache
        wait(f"the cache may have the data, {attempt}")
        assert key is not None
        found = load_mapped(source, key, _is_mine)
        if first_to_say(0 if found is None else 1) and found is not None:
            return found
    return load(source)


def _key_of_first(source: str | Path) -> str | None:
    """The SHA-256 of the files as process 0 reads them, or None where it cannot."""
    words: list[int] = []
    if first():
        with contextlib.suppress(InputError):
            key = key_of(source)
            words = [int(key[place : place + 4], 16) for place in range(0, len(key), 4)]
    return "".join(f"{word:04x}" for word in of_first(words, 16)) or None


def _is_mine(number: int) -> bool:
    return number % jax.process_count() == jax.process_index()


def _equal_part(rows: int) -> slice:
    """This process's of as many equal ranges of rows as there are processes."""
    processes, number = jax.process_count(), jax.process_index()
    return slice(number * rows // processes, (number + 1) * rows // processes)


def column_counts(matrix: csr_matrix, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """How many of some rows of a CSR [n, K] have each column, int64 [K]; None is all rows."""
    if rows is None:
        part = _equal_part(matrix.shape[0])
        begin, end = matrix.indptr[part.start], matrix.indptr[part.stop]
        ids = matrix.indices[begin:end]
    else:
        ids = matrix[rows[_equal_part(len(rows))]].indices
    return summed(np.bincount(ids, minlength=matrix.shape[1]).astype(np.int64))


def label_frequency(dataset: Dataset) -> NDArray[np.int64]:
    """Number of training points of each label, int64 [K]."""
    return column_counts(dataset.train.labels)


def seen_labels(dataset: Dataset) -> tuple[int, float]:
    """Entries that are a feature and, by number, a label of a training point; what chance makes.

    Returns:
      How many there are, and how many there would be if the points had drawn features and labels
      apart: the sum over j of (points with feature j) (points with label j) / points.
    """
    train = dataset.train
    part, found = _equal_part(train.num_points), 0
    for begin in range(part.start, part.stop, _ROWS):  # so that no second copy of them is there
        rows = slice(begin, min(begin + _ROWS, part.stop))
        found += _ones(train.features[rows]).multiply(_ones(train.labels[rows])).nnz
    together = summed(np.array([found], np.int64))
    chances = column_counts(train.features).astype(float) @ column_counts(train.labels)
    return int(together[0]), float(chances) / train.num_points


def _ones(matrix: csr_matrix) -> csr_matrix:
    """The same entries, all of them 1."""
    ones = np.ones(len(matrix.indices), np.int8)
    return csr_matrix((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def fit_weighting(kind: str, features: csr_matrix) -> Weighting:
    """`Weighting.fit` on CSR [n, d], each process counting some of the rows.

    Raises:
      InputError: a negative value under `tfidf`, in every process.
    """
    if not several() or kind != "tfidf":
        return Weighting.fit(kind, features)  # type: ignore[arg-type]
    part = _equal_part(features.shape[0])
    present, refused = np.zeros(features.shape[1], np.int64), None
    try:
        present = document_counts(features[part], first_row=part.start)
    except InputError as error:
        refused = error
    if not first_to_say(0 if refused else 1):
        found = "a negative value, as another process says"
        raise refused or InputError("features", found, "counts of at least 0 (tfidf weighting)")
    return Weighting.of_counts(features.shape[0], summed(present))


def duplicate_test_rows(dataset: Dataset) -> NDArray[np.bool_]:
    """Which test rows have exactly the features of some training row, bool [n_test]."""
    if not several() or dataset.test is None:
        return duplicates_of(dataset)
    part = _equal_part(dataset.train.num_points)
    train = dataset.train.take(np.arange(part.start, part.stop))
    found = duplicates_of(dataclasses.replace(dataset, train=train))
    return summed(found.astype(np.int64)) > 0
