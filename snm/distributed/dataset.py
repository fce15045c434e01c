"""Loads a data set in several processes, and computes its statistics together.

Process 0 hashes the files and parses them into the cache if they are not there yet; the others map
the cached arrays. Each process verifies some of the arrays, or all of them if each has a cache of
its own. It reads an equal range of the training points to count labels and features, and the points
of its batch positions to train on. A single process reads everything.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.csr import count_ids, csr_of_ones, row_starts, with_ones
from snm.data.dataset import Dataset, Points
from snm.data.load import SYNTHETIC, cache_key, load, load_mapped
from snm.data.statistics import duplicate_test_rows
from snm.data.weighting import Weighting, document_counts
from snm.distributed.agreement import check_equal, have_same_folder
from snm.distributed.processes import (
    barrier,
    gather_texts,
    has_several_processes,
    is_first_process,
    is_mine,
    min_over_processes,
    sum_over_processes,
)
from snm.errors import InputError
from snm.system.files.cache_folder import cache_folder

__all__ = [
    "binarized_rows",
    "column_counts",
    "count_seen_labels",
    "dataset_facts",
    "duplicate_test_rows_together",
    "fit_weighting",
    "has_negative",
    "label_draws",
    "label_frequency_together",
    "load_together",
]

_BLOCK_ROWS = 1 << 16  # rows processed at once
_HASH_DIGITS = 12  # of a hash in an error message


def load_together(source: str | Path) -> Dataset:
    """Loads a data set; several processes memory-map it from a shared cache.

    If the processes do not share a writable cache, each loads all of the data set.

    Raises:
      InputError: as `snm.data.load.load`, in every process; or the content differs.
    """
    if not has_several_processes() or source == SYNTHETIC:
        return load(source)
    dataset = _load_together(source)
    # Before counts of the processes' parts are added up.
    check_equal(dataset_facts(dataset), "give all processes the same files")
    return dataset


def dataset_facts(dataset: Dataset) -> dict[str, str]:
    """The facts of a data set that `check_equal` compares."""
    return {"SHA-256 of the data": dataset.sha256[:_HASH_DIGITS]}


def _load_together(source: str | Path) -> Dataset:
    key = _key_of_first_process(source)
    if key is None:
        return load(source)
    place = None
    with contextlib.suppress(InputError):  # `load_mapped` raises it
        place = cache_folder()
    verified_here = is_mine if have_same_folder(place) else lambda _: True
    for attempt in range(2):
        if attempt and is_first_process():
            with contextlib.suppress(InputError):  # all processes raise it below
                load(source)  # writes the cache
        barrier(f"the cache may have the data, {attempt}")
        dataset = load_mapped(source, key, verified_here)
        if min_over_processes(0 if dataset is None else 1) and dataset is not None:
            return dataset
    return load(source)


def _key_of_first_process(source: str | Path) -> str | None:
    """The SHA-256 of the files as process 0 reads them, or None if it cannot."""
    key = ""
    if is_first_process():
        with contextlib.suppress(InputError):
            key = cache_key(source)
    return gather_texts(key)[0] or None


def _row_range(rows: int) -> slice:
    """This process's range of rows, one of as many equal ranges as there are processes."""
    processes, number = jax.process_count(), jax.process_index()
    return slice(number * rows // processes, (number + 1) * rows // processes)


def _entry_range(matrix: csr_matrix) -> slice:
    """The entries of this process's range of rows."""
    part = _row_range(matrix.shape[0])
    return slice(int(matrix.indptr[part.start]), int(matrix.indptr[part.stop]))


def column_counts(matrix: csr_matrix, rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """The number of entries in each column of a CSR [n, K], int64 [K].

    Args:
      matrix: the matrix; every process passes the same one and counts a part of the rows.
      rows: the rows to count, None for all.
    """
    if rows is None:
        ids = matrix.indices[_entry_range(matrix)]
    else:
        ids = matrix[rows[_row_range(len(rows))]].indices
    return sum_over_processes(count_ids(ids, matrix.shape[1]))


def label_draws(labels: csr_matrix, rows: NDArray[np.int64], *, one: bool) -> NDArray[np.float64]:
    """Sums of the probabilities with which visits of points take each label, and of their squares.

    Args:
      labels: CSR [n, K]; every process passes the same one and reads a part of the rows.
      rows: int64 [m], the points.
      one: whether a visit takes one of the labels of its point, drawn uniformly, or all of them.

    Returns:
      float64 [2, K], the same for any number of processes.
    """
    if not one:
        return np.tile(column_counts(labels, rows).astype(np.float64), (2, 1))
    local_labels = labels[rows[_row_range(len(rows))]]
    counts = np.diff(local_labels.indptr)
    probabilities = 1.0 / np.repeat(counts, counts)
    sums = []
    for values in (probabilities, probabilities**2):
        # Integers, because a sum of floats depends on its order; split so that 32 bits can add up.
        units = np.zeros(labels.shape[1], np.int64)
        np.add.at(units, local_labels.indices, np.round(values * 2.0**40).astype(np.int64))
        low, middle, high = (
            sum_over_processes(part)
            for part in (units & 0xFFFFF, units >> 20 & 0xFFFFF, units >> 40)
        )
        sums.append(high + (middle + low / 2.0**20) / 2.0**20)
    return np.stack(sums)


def binarized_rows(matrix: csr_matrix, rows: NDArray[np.int64]) -> csr_matrix:
    """Rows of a matrix with all values set to 1, float64 CSR [m, K]; each process reads a part.

    Args:
      matrix: CSR [n, K]; every process passes the same one.
      rows: int64 [m], ascending.
    """
    counts = np.diff(matrix.indptr)[rows]
    starts = row_starts(counts)
    part = _row_range(matrix.shape[0])
    first, last = np.searchsorted(rows, [part.start, part.stop])
    begin = matrix.indptr[rows[first:last]] - starts[first:last]
    entries = np.repeat(begin, counts[first:last]) + np.arange(starts[first], starts[last])
    ids = np.zeros(starts[-1], np.int64)
    ids[starts[first] : starts[last]] = matrix.indices[entries]
    ids = sum_over_processes(ids)
    return csr_of_ones(ids, starts, (len(rows), matrix.shape[1]), np.float64)


def has_negative(matrix: csr_matrix) -> bool:
    """Whether a value of a CSR [n, K] is below 0; each process checks a part of the rows."""
    values = matrix.data[_entry_range(matrix)]
    return bool(sum_over_processes(np.array([bool(len(values)) and values.min() < 0], np.int64))[0])


def label_frequency_together(dataset: Dataset) -> NDArray[np.int64]:
    """The number of training points with each label, int64 [K]."""
    return column_counts(dataset.train.labels)


def count_seen_labels(dataset: Dataset) -> tuple[int, float]:
    """Counts pairs (point, j) of the training set where j is both a feature and a label.

    There are no fewer labels than features.

    Returns:
      The count, and its expectation if features and labels were independent: the sum over j of
      (points with feature j) (points with label j) / points.
    """
    train, width = dataset.train, dataset.train.num_features
    part, local_count = _row_range(train.num_points), 0
    for begin in range(part.start, part.stop, _BLOCK_ROWS):  # in blocks, to avoid a copy of all
        rows = slice(begin, min(begin + _BLOCK_ROWS, part.stop))
        features, labels = train.features[rows], train.labels[rows][:, :width]
        local_count += with_ones(features, np.int8).multiply(with_ones(labels, np.int8)).nnz
    count = sum_over_processes(np.array([local_count], np.int64))
    expected = column_counts(train.features).astype(float) @ column_counts(train.labels)[:width]
    return int(count[0]), float(expected) / train.num_points


def fit_weighting(kind: str, features: csr_matrix) -> Weighting:
    """`Weighting.fit` on CSR [n, d]; of `tfidf`, each process counts a part of the rows.

    Raises:
      InputError: a value is negative and `kind` is `tfidf`; raised in every process.
    """
    if not has_several_processes() or kind != "tfidf":
        return Weighting.fit(kind, features)  # type: ignore[arg-type]
    part = _row_range(features.shape[0])
    present, failure = np.zeros(features.shape[1], np.int64), None
    try:
        present = document_counts(features[part], first_row=part.start)
    except InputError as error:
        failure = error
    if not min_over_processes(0 if failure else 1):
        found = "a negative value, in the rows of another process"
        raise failure or InputError(
            "features", found, "counts of at least 0 for tfidf; --weighting l2 takes any"
        )
    return Weighting.of_counts(features.shape[0], sum_over_processes(present))


def duplicate_test_rows_together(test: Points, train: Points) -> NDArray[np.bool_]:
    """Which test rows have exactly the features of a training row, bool [n_test]."""
    if not has_several_processes():
        return duplicate_test_rows(test.features, train.features)
    part = _row_range(train.num_points)
    is_duplicate = duplicate_test_rows(test.features, train.features[part])
    return sum_over_processes(is_duplicate.astype(np.int64)) > 0
