"""Parts of CSR matrices."""

import numpy as np
import pytest

from snm.data import csr


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("count", [5, 40])
def test_ids_are_counted_in_pieces(monkeypatch, size, count):
    monkeypatch.setattr(csr, "_COUNT_BLOCK", size)
    ids = np.random.default_rng(0).integers(5, size=100, dtype=np.int32)
    found = csr.count_ids(ids, count)
    assert found.tolist() == [int((ids == one).sum()) for one in range(count)]
    assert csr.count_ids(ids[:0], 3).tolist() == [0, 0, 0]
