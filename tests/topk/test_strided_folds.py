"""The accelerator's folds against a stable sort, and the flag that tells of ties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snm.losses.reductions import MASKED
from snm.machine.platform import compiling_for
from snm.topk import search
from snm.topk.blocks import WIDTH, Best, LabelRows
from snm.topk.search import best_scores
from snm.topk.strided_folds import merge_best, strided_top_k

top_of_folds = jax.jit(strided_top_k, static_argnums=2)


def stable(scores, count):
    order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(scores, order, axis=1), order


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(2, 40))
def test_a_block_that_is_sure_equals_a_stable_sort(seed, count, values):
    """Scores of few values tie often; whatever the flag calls sure must be right, slots too."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, values, (3, 8 * WIDTH)).astype(np.float32)
    scores[rng.random(scores.shape) < 0.3] = MASKED
    best, sure = top_of_folds(scores, np.int32(100), count)
    want, slots = stable(scores, count)
    np.testing.assert_array_equal(best.scores, want)  # scores are right in any case
    if sure:
        real = want > MASKED / 2
        np.testing.assert_array_equal(
            np.where(real, best.slots, -1), np.where(real, slots + 100, -1)
        )


def test_the_flag_tells_of_a_lower_slot_in_a_fold_that_was_not_chosen():
    scores = np.zeros((1, 4 * WIDTH), np.float32)
    scores[0, [5, 2]] = 0, 1  # fold 2 first, then every fold ties at 0
    scores[0, 4 * 3] = 2  # slot 12: fold 0
    best, sure = top_of_folds(scores, np.int32(0), 2)
    assert sure and best.slots.tolist() == [[12, 2]]
    _, sure = top_of_folds(scores, np.int32(0), 3)
    assert not sure


def test_distinct_scores_are_sure():
    scores = np.random.default_rng(0).permutation(64 * WIDTH).astype(np.float32)[None]
    assert top_of_folds(scores, np.int32(0), 16)[1]


def test_merging_prefers_the_first_list():
    first = Best(jnp.array([[3.0, 1.0]]), jnp.array([[7, 2]]))
    second = Best(jnp.array([[3.0, 1.0]]), jnp.array([[10, 12]]))
    assert merge_best(first, second).slots.tolist() == [[7, 10]]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("ties", [False, True])
def test_the_accelerator_form_equals_a_stable_sort(monkeypatch, ties, count):
    """Several blocks of 8 folds, the last overlapping; with ties the search falls back."""
    rng = np.random.default_rng(1)
    draw = rng.integers(-2, 3, (300, 4)) if ties else rng.normal(size=(300, 4))
    table = draw.astype(np.float32)
    queries = rng.integers(-2, 3, (5, 4)).astype(np.float32)
    queries[0] = 0  # every score ties
    monkeypatch.setattr(search, "_CPU_BLOCK", 64)
    monkeypatch.setattr(search, "_ACCELERATOR_NUMBERS", 128 * (5 + 4))
    with jax.default_matmul_precision("float32"), compiling_for("gpu", 1 << 34):
        got = jax.jit(lambda q, t: best_scores(q, LabelRows(t), count))(queries, table)
    want, slots = stable(queries @ table.T, count)
    np.testing.assert_allclose(got.scores, want, rtol=1e-5)
    np.testing.assert_array_equal(got.slots, slots)
