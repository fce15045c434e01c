"""Tests bfloat16 tables: unbiased rounding, steps equal to the dense ones, and training."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import snm
from snm.export.arrays import model_arrays
from snm.runs.events import Stepped
from snm.tables.bag import embedding_bag_gather, embedding_bag_loop
from snm.tables.optimizers import ROW_OPTIMIZERS, SGD, RowStep
from snm.tables.rounding import as_float, noise_for, round_to_nearest, rounded_rows, storage
from snm.tables.table import RowTable, SparseRows
from snm.tables.updates import _segments_loop, _segments_scatter, update_rows

NOISE = jnp.uint32(12345)
NARROW = storage("bfloat16")


def test_rounding_is_unbiased():
    """10^5 rows of one number become its two bfloat16 neighbours, with the right frequencies."""
    low, high = 1.0, 1.0 + 2.0**-7  # neighbours among the bfloat16 numbers
    ids = jnp.arange(100_000, dtype=jnp.int32)
    for share in (0.0, 0.01, 0.3, 0.5, 0.9):
        x = np.float32(low + share * (high - low))
        exact = (np.float64(x) - low) / (high - low)  # the share after rounding to float32
        got = rounded_rows(jnp.full((ids.size, 2), x), NARROW, ids, NOISE)
        got = np.asarray(as_float(got), np.float64)
        assert set(np.unique(got)) <= {low, high}
        deviation = np.sqrt(exact * (1 - exact) / ids.size)
        assert np.abs((got == high).mean(axis=0) - exact).max() <= 5 * deviation + 2**-16
        # The columns are nearly independent: both round up with the product of the probabilities.
        both = (got == high).all(axis=1).mean()
        assert abs(both - exact**2) <= 5 * np.sqrt(exact**2 * (1 - exact**2) / ids.size) + 2**-15


def test_each_step_rounds_by_its_own_bits():
    ids = jnp.arange(20_000, dtype=jnp.int32)
    x = jnp.full((ids.size, 1), 1.0 + 2.0**-8)  # half way
    up = [as_float(rounded_rows(x, NARROW, ids, jnp.uint32(n))) > 1 for n in (7, 7, 8)]
    np.testing.assert_array_equal(up[0], up[1])
    assert abs(np.mean(up[0] == up[2]) - 0.5) < 5 * 0.5 / np.sqrt(ids.size)


def test_steps_too_small_for_the_type_count_on_average():
    """1000 steps of 0.0004 from 1 reach 1.4 on average; rounding to nearest would stay at 1."""
    ids = jnp.arange(64, dtype=jnp.int32)

    def step(rows, number):
        return rounded_rows(as_float(rows) + 4e-4, NARROW, ids, number), None

    start = round_to_nearest(jnp.ones((64, 8)), NARROW)
    rows, _ = jax.lax.scan(step, start, jnp.arange(1000, dtype=jnp.uint32))
    # Each step adds 2^-7 with probability 0.0512: deviation sqrt(1000 * 0.0512 * 0.9488) / 128
    # = 0.054.
    got = np.asarray(as_float(rows), np.float64)
    assert abs(got.mean() - 1.4) < 5 * 0.054 / np.sqrt(got.size)
    assert jnp.bfloat16(1) + jnp.bfloat16(4e-4) == 1


def test_float32_stays_and_other_types_are_refused():
    x = jnp.ones((2, 3)) * 1.2345
    ids = jnp.arange(2)
    assert noise_for(x, jax.random.key(0)) is None
    assert rounded_rows(x, jnp.float32, ids, None) is x
    with pytest.raises(ValueError, match="needs noise"):
        rounded_rows(x, NARROW, ids, None)
    with pytest.raises(ValueError, match="float16"):
        storage("float16")


def test_noise_is_one_number_of_the_key():
    noise = noise_for(jnp.zeros((2, 3), NARROW), jax.random.key(7))
    assert noise.shape == () and noise.dtype == jnp.uint32
    assert noise == jax.random.bits(jax.random.key(7), (), jnp.uint32)


def test_storage_is_bfloat16():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(9, 5)), jnp.float32)
    np.testing.assert_array_equal(as_float(round_to_nearest(x, NARROW)), x.astype(jnp.bfloat16))


def problem(seed=0):
    rng = np.random.default_rng(seed)
    rows = round_to_nearest(jnp.asarray(rng.normal(size=(50, 12)), jnp.float32), NARROW)
    ids = rng.integers(0, 30, 40).astype(np.int32)  # rows above 29 are never named
    values = rng.normal(size=40).astype(np.float32)
    starts = np.array([0, 5, 5, 17, 40], np.int32)
    return rows, SparseRows(*map(jnp.asarray, (ids, values, starts))), rng.normal(size=(4, 12))


def dense(block):
    of = np.zeros((4, 50))
    for i in range(4):
        for p in range(int(block.starts[i]), int(block.starts[i + 1])):
            of[i, int(block.ids[p])] += float(block.values[p])
    return of


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
@pytest.mark.parametrize("unit_norm", [False, True])
@pytest.mark.parametrize("form", [_segments_loop, _segments_scatter])
def test_steps_of_a_narrow_table(optimizer, unit_norm, form, monkeypatch):
    """Within one unit in the last place of the dense step in float64; other rows untouched."""
    monkeypatch.setattr("snm.tables.updates._segments_loop", form)
    rows, block, vectors = problem()
    total = jnp.full(50, 0.5) if optimizer == "adagrad" else None
    step = RowStep(ROW_OPTIMIZERS[optimizer], 0.1, unit_norm=unit_norm, noise=NOISE)
    gradients = [(block, jnp.asarray(vectors, jnp.float32))]
    got = jax.jit(functools.partial(update_rows, step=step))(RowTable(rows, total), gradients)
    old = np.asarray(as_float(rows), np.float64)
    gradient = dense(block).T @ vectors
    if optimizer == "adagrad":
        gradient /= np.sqrt(0.5 + (gradient**2).mean(axis=1, keepdims=True))
    expected = old - 0.1 * gradient
    named = np.unique(np.asarray(block.ids))
    if unit_norm:
        expected[named] /= np.linalg.norm(expected[named], axis=1, keepdims=True)
    assert got.rows.dtype == NARROW
    new = np.asarray(as_float(got.rows), np.float64)
    ulp = 2.0 ** (np.floor(np.log2(np.abs(expected))) - 7)
    assert (np.abs(new - expected)[named] <= 1.001 * ulp[named] + 1e-6).all()
    rest = np.setdiff1d(np.arange(50), named)
    np.testing.assert_array_equal(new[rest], old[rest])


def test_nothing_is_written_unless_ok():
    rows, block, vectors = problem()
    gradients = [(block, jnp.asarray(vectors, jnp.float32))]
    step = RowStep(SGD, 0.1, noise=NOISE)
    got = update_rows(RowTable(rows), gradients, step, ok=jnp.bool_(False))
    np.testing.assert_array_equal(got.rows, rows)


@pytest.mark.parametrize("form", [embedding_bag_loop, embedding_bag_gather])
def test_sums_of_narrow_rows_are_float32(form):
    rows, block, _ = problem()
    got = form(rows, block)
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(
        got, dense(block) @ np.asarray(as_float(rows), np.float64), atol=1e-5
    )


@pytest.mark.slow
def test_training_in_half_the_memory(tmp_path):
    """Losses start like those of float32 and the score ends near it; the run loads as bfloat16."""
    data = tiny.dataset(tmp_path / "data")
    losses, scores = {}, {}
    for dtype in ("float32", "bfloat16"):
        config = dataclasses.replace(tiny.CONFIG, table_dtype=dtype, epochs=20)
        events = list(snm.training(data, config, tmp_path / dtype))
        losses[dtype] = [event.loss for event in events if isinstance(event, Stepped)]
        scores[dtype] = events[-1].result["metrics"]["P@1"]
    # Numbers of 8 bits are off by up to 0.4%, and so are scores; a mean of losses is off by less.
    np.testing.assert_allclose(losses["bfloat16"][:4], losses["float32"][:4], rtol=5e-3)
    assert losses["float32"][-1] < 0.5 * losses["float32"][0]
    np.testing.assert_allclose(losses["bfloat16"][-1], losses["float32"][-1], rtol=0.1)
    assert abs(scores["bfloat16"] - scores["float32"]) <= 10  # of 20 points, two
    model = snm.load(tmp_path / "bfloat16")
    assert model.state.head.table.rows.dtype == NARROW
    assert model.state.features.rows.dtype == NARROW
    float_rows = model_arrays(model)["class_rows"]
    np.testing.assert_allclose(np.linalg.norm(float_rows, axis=1), 1, atol=0.01)


@pytest.mark.parametrize("form", [_segments_loop, _segments_scatter])
def test_a_shard_is_rounded_as_those_rows_of_the_whole(form, monkeypatch):
    monkeypatch.setattr("snm.tables.updates._segments_loop", form)
    rows, block, vectors = problem()
    vectors = jnp.asarray(vectors, jnp.float32)

    @jax.jit
    def step(rows, block, first_row):
        rule = RowStep(SGD, 0.1, noise=NOISE, first_row=first_row)
        return update_rows(RowTable(rows), [(block, vectors)], rule).rows

    whole = step(rows, block, 0)
    first = 20
    here = block.ids >= first
    part = block._replace(
        ids=jnp.where(here, block.ids - first, 0), values=jnp.where(here, block.values, 0)
    )
    got = step(rows[first:], part, first)
    np.testing.assert_array_equal(got, whole[first:])
    alike = step(rows[first:], part, 0)
    assert (np.asarray(alike) != np.asarray(got)).any()
