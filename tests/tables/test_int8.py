"""Rows of int8: their numbers, and sums of them in both forms."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from snm.tables.bag import embedding_bag_gather, embedding_bag_loop
from snm.tables.int8 import as_bytes, from_int8, int8_rows, row_type
from snm.tables.rounding import as_float
from snm.tables.table import SparseRows


def rows_of(count, dim, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)
    rows[1] = 0
    rows[2] *= 1e-30
    rows[3, 0] = 3e38
    return rows


def test_each_number_is_off_by_at_most_half_a_step():
    rows = rows_of(40_000, 5)  # more than are converted at once
    stored = int8_rows(rows)
    assert stored.dtype == row_type(5) and stored.nbytes == 40_000 * 9
    exact = stored["codes"].astype(np.float64) * stored["scale"].astype(np.float64)[:, None]
    most = np.abs(rows).max(axis=1).astype(np.float64)
    assert (np.abs(exact - rows) <= most[:, None] / 254 * (1 + 1e-4)).all()  # in float32
    largest = np.abs(stored["codes"]).max(axis=1)
    assert set(largest.tolist()) == {0, 127} and largest[1] == 0
    found = np.asarray(jax.jit(as_float)(as_bytes(stored)))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, stored["codes"] * stored["scale"][:, None])
    assert as_bytes(stored).base is not None  # a view
    np.testing.assert_array_equal(from_int8(as_bytes(stored)[7]), found[7])


def test_sums_are_those_of_the_float32_rows():
    stored = int8_rows(rows_of(50, 16)[4:])
    rows = (stored["codes"] * stored["scale"][:, None]).astype(np.float32)
    rng = np.random.default_rng(1)
    counts = np.array([0, 3, 40, 1, 0, 17])
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    ids = rng.integers(0, len(rows), starts[-1] + 5).astype(np.int32)
    values = rng.normal(size=len(ids)).astype(np.float32)
    values[starts[-1] :] = 0
    block = SparseRows(*map(jnp.asarray, (ids, values, starts)))
    terms = values[:, None].astype(np.float64) * rows[ids]
    wanted = np.stack([terms[a:b].sum(axis=0) for a, b in itertools.pairwise(starts)])
    for form in (embedding_bag_loop, embedding_bag_gather):
        found = jax.jit(form)(jnp.asarray(as_bytes(stored)), block)
        assert found.shape == (6, 16) and found.dtype == jnp.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
