"""`entry_products` against float64 products of rows and vectors."""

import jax
import numpy as np
import pytest

from snm.tables.products import entry_products
from snm.tables.rounding import round_to_nearest
from snm.tables.table import SparseRows


@pytest.mark.parametrize("entries", [0, 1, 255, 256, 700])
@pytest.mark.parametrize("dtype", ["float32", "uint16"])
def test_each_entry_is_a_product_of_a_row_and_a_vector(entries, dtype):
    rng = np.random.default_rng(0)
    n, rows, dim = 7, 30, 12
    table = rng.normal(size=(rows, dim)).astype(np.float32)
    vectors = rng.normal(size=(n, dim)).astype(np.float32)
    real = entries - entries // 4  # the rest is padding
    starts = np.sort(rng.integers(0, real + 1, n + 1)).astype(np.int32)
    starts[0], starts[-1] = 0, real
    block = SparseRows(
        rng.integers(0, rows, entries).astype(np.int32), np.ones(entries, np.float32), starts
    )
    stored = round_to_nearest(table, np.dtype(dtype))
    got = jax.jit(entry_products)(stored, block, vectors)

    assert got.shape == (entries,) and np.isfinite(got).all()
    read = table if dtype == "float32" else (np.asarray(stored, np.uint32) << 16).view(np.float32)
    owner = np.repeat(np.arange(n), np.diff(starts))
    expected = np.sum(np.float64(read[block.ids[:real]]) * np.float64(vectors[owner]), axis=1)
    np.testing.assert_allclose(got[:real], expected, atol=1e-5)


def test_entries_past_the_last_one_read_nothing():
    """The loop ends with the real entries: a row that only padding names may be NaN."""
    table = np.full((2, 4), np.nan, np.float32)
    table[0] = 1
    ids = np.zeros(600, np.int32)
    ids[512:] = 1
    block = SparseRows(ids, np.ones(600, np.float32), np.array([0, 500, 512], np.int32))
    got = jax.jit(entry_products)(table, block, np.ones((2, 4), np.float32))
    np.testing.assert_array_equal(got[:512], 4)
    if jax.default_backend() == "cpu":
        np.testing.assert_array_equal(got[512:], 0)
