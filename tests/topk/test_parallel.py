"""The highest of each row, cut into parts, against a stable sort of whole rows."""

import jax
import numpy as np
import pytest

from snm.topk import parallel as tops


@pytest.mark.parametrize(("rows", "parts"), [(128, 16), (100, 7), (3, 3), (5, 1)])
def test_parts_find_what_a_stable_sort_of_all_rows_finds(rows, parts):
    rng = np.random.default_rng(0)
    # Few different numbers, so that many tie.
    scores = rng.integers(0, 9, (rows, 50)).astype(np.float32)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :13]

    values, places = tops._in_parts(jax.numpy.asarray(scores), count=13, parts=parts)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, expected, axis=1))


@pytest.mark.parametrize("count", [1, 17, 64])
def test_highest_is_the_top_k_of_jax(count):
    scores = jax.random.normal(jax.random.key(1), (300, 64))
    found = jax.jit(lambda scores: tops.highest(scores, count))(scores)
    expected = jax.lax.top_k(scores, count)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


def test_rows_are_cut_where_there_are_cores_to_hand_them_to(monkeypatch):
    # More than eight operations have to be ready before XLA:CPU hands any over.
    monkeypatch.setattr(tops, "_cores", lambda: 2)
    assert tops._parts(512) == 16
    assert tops._parts(127) == 1  # too few to be worth it
    monkeypatch.setattr(tops, "_cores", lambda: 1)
    assert tops._parts(512) == 1
