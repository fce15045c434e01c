"""What processes read of a data set together."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from snm.data.load import cache_key, load
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


@pytest.mark.parametrize("shared", [True, False])
def test_a_process_verifies_all_arrays_of_a_cache_of_its_own(
    shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a shared cache it leaves some of them to the others, here all."""
    folder, cache = tmp_path / "data", tmp_path / "cache"
    folder.mkdir()
    (folder / "train.txt").write_text("2 3 2\n0 0:1 2:0.5\n1 1:2\n")
    monkeypatch.setenv("SNM_CACHE", str(cache))
    load(folder)
    array = cache / f"v3-{cache_key(folder)}" / "train.features.data.npy"
    damaged = bytearray(array.read_bytes())
    damaged[-2] ^= 1
    array.write_bytes(damaged)
    monkeypatch.setattr(dataset, "has_several_processes", lambda: True)
    monkeypatch.setattr(dataset, "check_equal", lambda *_: None)
    monkeypatch.setattr(dataset, "have_same_folder", lambda place: place == cache and shared)
    monkeypatch.setattr(dataset, "is_mine", lambda number: False)
    values = dataset.load_together(folder).train.features.data
    assert (values.tolist() == [1.0, 0.5, 2.0]) != shared
