"""The kernel by Pallas' interpreter, against `lax.top_k` of all scores."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from devices import all_24_bits as all_24_bits  # a fixture

from benchmarks.devices import topk_kernel
from benchmarks.devices.topk_kernel import Shape, case_of, check_cases, scores_of, wrong
from snm.losses.reductions import MASKED
from snm.topk import LabelRows, Masked, best_scores
from snm.topk.kernel.choice import _search
from snm.topk.kernel.excluded import excluded_bits
from snm.topk.kernel.on_tpu import product_precision, top_on_tpu
from snm.topk.kernel.plan import Tiles

TILES = Tiles(8, 32, searched=16)


pytestmark = pytest.mark.usefixtures("all_24_bits")


def test_a_dozen_cases_are_the_head_of_a_stable_sort(monkeypatch):
    """11 queries in blocks of 8, 75 slots in tiles of 32; each pair is excluded twice."""
    drawn = Shape(11, 5, 75, 9, jnp.bfloat16, True, 60, TILES)
    monkeypatch.setattr(topk_kernel, "shape_of", lambda *_: drawn)
    assert [found for _, *found in check_cases(12, seed=3)] == [[12, 0]]


@pytest.mark.slow
def test_hundreds_of_cases():
    found = list(check_cases(300, seed=4, of_shape=20))
    assert sum(cases for _, cases, _ in found) == 300
    assert not [shape for shape, _, failed in found if failed]


def test_a_wrong_answer_is_found():
    rng = np.random.default_rng(0)
    for exact in (True, False):
        case = case_of(Shape(4, 3, 40, 5, np.float32, False, 0, TILES), exact, rng)
        every = scores_of(case).astype(np.float32)
        best = [np.array(x) for x in jax.lax.top_k(jnp.asarray(every), 5)]
        assert not wrong(case, *best)
        swapped = best[1].copy()
        swapped[0, :2] = swapped[0, 1::-1]
        assert wrong(case, best[0], swapped)  # of two that tie, the higher slot is first
        assert wrong(case, best[0] + 0.01, best[1])
        assert wrong(case, best[0], np.repeat(best[1][:, :1], 5, axis=1))


def test_not_a_number_counts_as_excluded():
    queries, rows = jnp.ones((2, 4)), jnp.arange(40.0)[:, None] * jnp.ones((1, 4))
    rows = rows.at[39].set(jnp.nan)
    best = top_on_tpu(
        queries.at[1].set(jnp.nan), rows, None, None, count=2, tiles=TILES,
        compute_dtype=jnp.float32, interpret=True,
    )  # fmt: skip
    np.testing.assert_array_equal(best.scores, [[4 * 38, 4 * 37], [-np.inf, -np.inf]])
    np.testing.assert_array_equal(best.slots, [[38, 37], [0, 1]])


@pytest.mark.parametrize("sampled", [True, False])
def test_it_serves_the_search_of_a_sample(sampled):
    """bfloat16 rows of a shard that has labels 40 to 74; other slots, and padding, are masked."""
    rng = np.random.default_rng(5)
    queries = jnp.asarray(rng.integers(-2, 3, (5, 4)), jnp.float32)
    rows = jnp.asarray(rng.integers(-2, 3, (40, 4)), jnp.bfloat16)
    table = jax.lax.bitcast_convert_type(rows, jnp.uint16)
    bias = jnp.asarray(rng.integers(-2, 3, 40), jnp.float32)
    ids = jnp.asarray([*range(10, 90, 3), 999, 999], jnp.int32) if sampled else None
    masked = Masked(jnp.array([0, 0, 3]), jnp.array([12, 12, 14]))
    valid = jnp.int32(35)
    labels = LabelRows(table, ids, bias, 40, valid)
    run = functools.partial(top_on_tpu, interpret=True)

    @jax.jit
    def both():
        return (
            best_scores(queries, labels, 15, masked=masked),
            _search(run, TILES, 15, jnp.float32, queries, labels, masked, None),
        )

    want, got = both()
    np.testing.assert_array_equal(got.scores, want.scores)
    real = np.asarray(want.scores) > MASKED / 2
    assert 0 < real.sum() < real.size or not sampled
    np.testing.assert_array_equal(np.asarray(got.slots)[real], np.asarray(want.slots)[real])


def test_bits_are_those_of_the_pairs():
    pairs = [(0, 0), (0, 0), (1, 31), (2, 69), (0, 63), (1, 70), (2, -1), (1, 32)]
    rows, slots = (jnp.array(x, jnp.int32) for x in zip(*pairs, strict=True))
    bits = np.asarray(excluded_bits(Masked(rows, slots), 3, 70, tile=64)).view(np.uint32)
    assert bits.shape == (2 * 2, 3)  # two tiles of two words
    found = {
        (query, tile * 64 + place * 2 + word)
        for tile in range(2)
        for word in range(2)
        for query in range(3)
        for place in range(32)
        if bits[tile * 2 + word, query] >> place & 1
    }
    assert found == {(0, 0), (1, 31), (2, 69), (0, 63), (1, 32)}


def test_products_are_as_precise_as_asked():
    least, most = jax.lax.Precision.DEFAULT, jax.lax.Precision.HIGHEST
    for asked, got in [("float32", most), ("tensorfloat32", most), ("bfloat16", least)]:
        with jax.default_matmul_precision(asked):
            assert product_precision(jnp.float32) == got
            assert product_precision(jnp.bfloat16) == least
