"""Blocks of rows: the same in NumPy and JAX, and those of SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from snm.batches.csr_blocks import as_sparse_rows, make_block, repeat, take

jitted_take = jax.jit(take, static_argnums=2)


@settings(max_examples=25, deadline=None)
@given(
    points=st.sampled_from([1, 4, 7]).flatmap(  # one program for each number of points
        lambda n: st.lists(st.integers(-1, 5), min_size=n, max_size=n)
    ),
    share=st.sampled_from([0.0, 0.4, 1.0]),
    seed=st.integers(0, 3),
)
def test_a_block_has_the_rows_of_the_matrix(points, share, seed):
    rng = np.random.default_rng(seed)
    dense = (rng.random((6, 9)) * (rng.random((6, 9)) < share)).astype(np.float32)
    matrix = sparse.csr_matrix(dense)
    expected = np.where(np.array(points)[:, None] >= 0, dense[points], 0)
    total = int((expected != 0).sum())
    host = as_sparse_rows(matrix)
    device = jax.tree.map(jnp.asarray, host)
    entries = 64
    for block in (
        take(host, np.array(points), entries),
        jitted_take(device, jnp.array(points), entries),
    ):
        ids, values, starts = (np.asarray(array) for array in block)
        assert ids.dtype == starts.dtype == np.int32 and values.dtype == np.float32
        assert ids.shape == values.shape == (entries,) and starts.shape == (len(points) + 1,)
        assert starts[0] == 0 and starts[-1] == total
        assert not ids[total:].any() and not values[total:].any()
        rows = sparse.csr_matrix((values[:total], ids[:total], starts), (len(points), 9))
        np.testing.assert_array_equal(rows.toarray(), expected)
    padded = make_block(matrix, np.array(points))
    assert len(padded.ids) & (len(padded.ids) - 1) == 0 and padded.starts[-1] == total


@pytest.mark.parametrize("xp", [np, jnp])
def test_values_repeat_and_the_last_fills_the_rest(xp):
    values, counts = xp.array([5.0, 6.0, 7.0], dtype=np.float32), xp.array([2, 0, 1])
    found = repeat(values, counts, 5)
    assert isinstance(found, type(values)) and found.dtype == np.float32
    assert found.tolist() == [5, 5, 7, 7, 7]
