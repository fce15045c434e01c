"""What processes read of a data set together."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.distributed import dataset


def test_ones_of_rows_are_summed_over_the_parts_of_all_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    matrix = csr_matrix((rng.random((41, 17)) < 0.2) * rng.random((41, 17)))
    rows = np.flatnonzero(rng.random(41) < 0.6)
    expected = (matrix[rows].toarray() > 0).astype(float)
    np.testing.assert_array_equal(dataset.binarized_rows(matrix, rows).toarray(), expected)

    told: list[np.ndarray] = []  # what each of three processes hands to the sum
    monkeypatch.setattr(dataset.jax, "process_count", lambda: 3)
    monkeypatch.setattr(dataset, "sum_over_processes", lambda part: told.append(part) or part)
    for number in range(3):
        monkeypatch.setattr(dataset.jax, "process_index", lambda number=number: number)
        dataset.binarized_rows(matrix, rows)
    assert len(told) == 3 and all(0 < np.count_nonzero(part) < len(part) for part in told)
    np.testing.assert_array_equal(np.sum(told, axis=0), matrix[rows].indices)
