"""Loads a data set in several processes, and computes its statistics together.

Process 0 hashes the files and parses them into the cache if they are not there yet; the others map
the cached arrays. Each process verifies some of the arrays. Of the training points, it reads an
equal range to count labels and features, and those of its own batch positions to train on. A single
process reads everything.
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.dataset import Dataset, count_ids
from snm.data.load import SYNTHETIC, key_of, load, load_mapped
from snm.data.statistics import duplicate_test_rows
from snm.data.weighting import Weighting, document_counts
from snm.distributed.agreement import agree
from snm.distributed.processes import (
    barrier,
    from_first_process,
    has_several_processes,
    is_first_process,
    is_mine,
    least_of_processes,
    sum_over_processes,
)
from snm.errors import InputError

__all__ = ["column_counts", "duplicate_test_rows_together", "facts_of", "fit_weighting",
           "has_negative", "label_frequency_together", "load_together", "ones_of_rows",
           "seen_labels"]  # fmt: skip

_ROWS = 1 << 16  # rows processed at once
_HASH = 12  # digits of a hash that an error line shows


def load_together(source: str | Path) -> Dataset:
    """Loads a data set; several processes memory-map it from a shared cache.

    If the processes do not share a writable cache, each loads all of the data set.

    Raises:
      InputError: as `snm.data.load.load`, in every process; or the content differs.
    """
    if not has_several_processes() or source == SYNTHETIC:
        return load(source)
    dataset = _load_together(source)
    # Before anything is added up of what each process counts in its part.
    agree(facts_of(dataset), "give all processes the same files")
    return dataset


def facts_of(dataset: Dataset) -> dict[str, str]:
    """What `agree` compares of a data set."""
    return {"SHA-256 of the data": dataset.sha256[:_HASH]}


def _load_together(source: str | Path) -> Dataset:
    key = _key_of_first(source)
    for attempt in range(0 if key is None else 2):
        if attempt and is_first_process():
            with contextlib.suppress(InputError):  # all processes raise it below
                load(source)  # writes the cache
        barrier(f"the cache may have the data, {attempt}")
        assert key is not None
        found = load_mapped(source, key, is_mine)
        if least_of_processes(0 if found is None else 1) and found is not None:
            return found
    return load(source)


def _key_of_first(source: str | Path) -> str | None:
    """The SHA-256 of the files as process 0 reads them, or None if it cannot."""
    words: list[int] = []
    if is_first_process():
        with contextlib.suppress(InputError):
            key = key_of(source)
            words = [int(key[place : place + 4], 16) for place in range(0, len(key), 4)]
    return "".join(f"{word:04x}" for word in from_first_process(words, 16)) or None


def _equal_part(rows: int) -> slice:
    """This process's range of rows, one of as many equal ranges as there are processes."""
    processes, number = jax.process_count(), jax.process_index()
    return slice(number * rows // processes, (number + 1) * rows // processes)


def _own_entries(matrix: csr_matrix) -> slice:
    """The entries of this process's range of rows."""
    part = _equal_part(matrix.shape[0])
    return slice(int(matrix.indptr[part.start]), int(matrix.indptr[part.stop]))


def column_counts(matrix: csr_matrix, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The number of entries in each column of a CSR [n, K], int64 [K].

    Args:
      matrix: the matrix; every process passes the same one and counts a part of the rows.
      rows: the rows to count, None for all.
    """
    if rows is None:
        ids = matrix.indices[_own_entries(matrix)]
    else:
        ids = matrix[rows[_equal_part(len(rows))]].indices
    return sum_over_processes(count_ids(ids, matrix.shape[1]))


def label_draws(labels: csr_matrix, rows: NDArray[np.int64], *, one: bool) -> NDArray[np.float64]:
    """Sums of the probabilities with which visits of points take each label, and of their squares.

    Args:
      labels: CSR [n, K]; every process passes the same one and reads a part of the rows.
      rows: int64 [m], the points.
      one: a visit takes one of the labels of its point, drawn uniformly; otherwise all of them.

    Returns:
      float64 [2, K], the same for any number of processes.
    """
    if not one:
        return np.tile(column_counts(labels, rows).astype(np.float64), (2, 1))
    mine = labels[rows[_equal_part(len(rows))]]
    counts = np.diff(mine.indptr)
    of_entry = 1.0 / np.repeat(counts, counts)
    found = []
    for probability in (of_entry, of_entry**2):
        # Integers, since a sum of floats depends on its order; in parts that 32 bits can add up.
        units = np.zeros(labels.shape[1], np.int64)
        np.add.at(units, mine.indices, np.round(probability * 2.0**40).astype(np.int64))
        low, middle, high = (
            sum_over_processes(part)
            for part in (units & 0xFFFFF, units >> 20 & 0xFFFFF, units >> 40)
        )
        found.append(high + (middle + low / 2.0**20) / 2.0**20)
    return np.stack(found)


def ones_of_rows(matrix: csr_matrix, rows: NDArray[np.int64]) -> csr_matrix:
    """Some rows with ones as values, float64 CSR [m, K]; each process reads a part of them.

    Args:
      matrix: CSR [n, K]; every process passes the same one.
      rows: int64 [m], ascending.
    """
    counts = np.diff(matrix.indptr)[rows]
    starts = np.concatenate([[0], np.cumsum(counts)])
    part = _equal_part(matrix.shape[0])
    first, last = np.searchsorted(rows, [part.start, part.stop])
    begin = matrix.indptr[rows[first:last]] - starts[first:last]
    here = np.repeat(begin, counts[first:last]) + np.arange(starts[first], starts[last])
    ids = np.zeros(starts[-1], np.int64)
    ids[starts[first] : starts[last]] = matrix.indices[here]
    ids = sum_over_processes(ids)
    return csr_matrix((np.ones(len(ids)), ids, starts), shape=(len(rows), matrix.shape[1]))


def has_negative(matrix: csr_matrix) -> bool:
    """Whether a value of a CSR [n, K] is below 0; each process looks at a part of the rows."""
    values = matrix.data[_own_entries(matrix)]
    return bool(sum_over_processes(np.array([bool(len(values)) and values.min() < 0], np.int64))[0])


def label_frequency_together(dataset: Dataset) -> NDArray[np.int64]:
    """The number of training points with each label, int64 [K]."""
    return column_counts(dataset.train.labels)


def seen_labels(dataset: Dataset) -> tuple[int, float]:
    """Counts pairs (point, j) of the training set where j is both a feature and a label.

    There are no fewer labels than features.

    Returns:
      The count, and its expectation if features and labels were independent: the sum over j of
      (points with feature j) (points with label j) / points.
    """
    train, width = dataset.train, dataset.train.num_features
    part, found = _equal_part(train.num_points), 0
    for begin in range(part.start, part.stop, _ROWS):  # in pieces, to avoid a second copy of all
        rows = slice(begin, min(begin + _ROWS, part.stop))
        found += _ones(train.features[rows]).multiply(_ones(train.labels[rows])[:, :width]).nnz
    together = sum_over_processes(np.array([found], np.int64))
    chances = column_counts(train.features).astype(float) @ column_counts(train.labels)[:width]
    return int(together[0]), float(chances) / train.num_points


def _ones(matrix: csr_matrix) -> csr_matrix:
    """A matrix with the same entries, all of value 1."""
    ones = np.ones(len(matrix.indices), np.int8)
    return csr_matrix((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def fit_weighting(kind: str, features: csr_matrix) -> Weighting:
    """`Weighting.fit` on CSR [n, d]; of `tfidf`, each process counts a part of the rows.

    Raises:
      InputError: a value is negative and `kind` is `tfidf`; raised in every process.
    """
    if not has_several_processes() or kind != "tfidf":
        return Weighting.fit(kind, features)  # type: ignore[arg-type]
    part = _equal_part(features.shape[0])
    present, refused = np.zeros(features.shape[1], np.int64), None
    try:
        present = document_counts(features[part], first_row=part.start)
    except InputError as error:
        refused = error
    if not least_of_processes(0 if refused else 1):
        found = "a negative value, in the rows of another process"
        raise refused or InputError(
            "features", found, "counts of at least 0 for tfidf; --weighting l2 takes any"
        )
    return Weighting.of_counts(features.shape[0], sum_over_processes(present))


def duplicate_test_rows_together(dataset: Dataset) -> NDArray[np.bool_]:
    """Which test rows have exactly the features of a training row, bool [n_test]."""
    if not has_several_processes() or dataset.test is None:
        return duplicate_test_rows(dataset)
    part = _equal_part(dataset.train.num_points)
    train = dataset.train.take(np.arange(part.start, part.stop))
    found = duplicate_test_rows(dataclasses.replace(dataset, train=train))
    return sum_over_processes(found.astype(np.int64)) > 0
