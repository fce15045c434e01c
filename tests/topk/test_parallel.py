"""Compares the top-k in parts with a stable sort of whole rows."""

import jax
import numpy as np
import pytest

from snm.topk import parallel


@pytest.mark.parametrize(("rows", "parts"), [(128, 16), (100, 7), (3, 3), (5, 1)])
def test_top_k_in_parts_equals_a_stable_sort(rows, parts):
    rng = np.random.default_rng(0)
    # Few distinct scores, so that many tie.
    scores = rng.integers(0, 9, (rows, 50)).astype(np.float32)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :13]

    values, places = parallel._top_k_in_parts(jax.numpy.asarray(scores), 13, parts)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, expected, axis=1))


@pytest.mark.parametrize("count", [1, 17, 64])
def test_parallel_top_k_equals_lax_top_k(count):
    scores = jax.random.normal(jax.random.key(1), (300, 64))
    found = jax.jit(lambda scores: parallel.parallel_top_k(scores, count))(scores)
    expected = jax.lax.top_k(scores, count)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_rows_are_split_if_there_are_several_cores(monkeypatch):
    # XLA:CPU keeps up to eight ready operations on one core.
    monkeypatch.setattr(parallel, "num_cores", lambda: 2)
    assert parallel._num_parts(512) == 16
    assert parallel._num_parts(127) == 15  # of at least 8 rows
    assert parallel._num_parts(71) == 1
    for many in (16, 64):  # as many as there are rows for
        monkeypatch.setattr(parallel, "num_cores", lambda many=many: many)
        assert parallel._num_parts(512) == 64 and parallel._num_parts(256) == 32
    monkeypatch.setattr(parallel, "num_cores", lambda: 1)
    assert parallel._num_parts(512) == 1
