"""The learning rates of each step, and that they reach it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny

import snm
from snm.batches.schedule import Rates, Schedule
from snm.config.resolve import resolve
from snm.config.schedules import SCHEDULES
from snm.data.weighting import Weighting
from snm.model.model import init_state
from snm.model.train_step import train_step
from snm.trainer.start.prepare import prepare

OPTAX = {
    "constant": lambda steps: optax.schedules.constant_schedule(1.0),
    "linear": lambda steps: optax.schedules.linear_schedule(1.0, 0.0, steps),
    "cosine": lambda steps: optax.schedules.cosine_decay_schedule(1.0, steps),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_factors_are_those_of_optax(name):
    rates, expected = Rates(2.0, 0.5, 0.0), OPTAX[name](37)
    schedule = Schedule(name, 37, rates)
    for step in (0, 1, 18, 36, 37, 50):
        found = schedule(step)
        assert {rate.dtype for rate in found} == {np.dtype(np.float32)}
        wanted = np.multiply(rates, expected(step))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_schedule_of_ones_own_is_one_entry(monkeypatch):
    monkeypatch.setitem(SCHEDULES, "square", lambda progress: (1 - progress) ** 2)
    data = snm.generate(points=30, test_points=1, features=20, labels=20, seed=0)
    asked = dataclasses.replace(tiny.CONFIG, schedule="square", learning_rate=4.0)
    schedule = Schedule.of(resolve(asked, data), 4)
    assert [float(schedule(step).rows) for step in (0, 2, 3, 4)] == [4.0, 1.0, 0.25, 0.0]


def test_no_parameter_moves_where_the_rates_have_fallen_to_zero(tmp_path):
    data = tiny.dataset(tmp_path / "data")
    settings = dict(schedule="linear", data_on="device", learn_score_scale=True)
    config = resolve(dataclasses.replace(tiny.CONFIG, **settings), data)
    prepared = prepare(config, data, Weighting.fit("none", data.train.features))
    model, source = prepared.model, prepared.source
    start = init_state(model)
    step = jax.jit(train_step, static_argnums=0)

    def moved(factor):
        item = jax.tree.map(lambda leaf: leaf[0], source.stack(0, 1))
        rates = jax.tree.map(lambda rate: rate * np.float32(factor), item.rates)
        item = item._replace(rates=rates)
        batch = source.materialize(source.resident_arrays(), item, source.shape(0))
        after, metrics = step(model, start, batch)
        assert metrics.ok
        return [float(jnp.abs(new - old).max()) for new, old in (
            (after.features.rows, start.features.rows),
            (jax.tree.leaves(after.tower)[0], jax.tree.leaves(start.tower)[0]),
            (after.head.log_scale, start.head.log_scale),
            (after.head.table.rows, start.head.table.rows),
        )]  # fmt: skip

    assert max(moved(0)) < 1e-6  # class rows are normalized again
    whole, half = moved(1), moved(0.5)
    assert min(whole) > 1e-4
    np.testing.assert_allclose(half[:3], np.array(whole[:3]) / 2, rtol=1e-3)
    # The rates are those of the step in the whole run, not in its pass.
    start = config.learning_rate, config.tower_learning_rate, config.scale_learning_rate
    for at in (0, source.steps_per_epoch, prepared.total_steps - 1):
        expected = np.multiply(start, 1 - at / prepared.total_steps)
        found = np.concatenate(source.stack(at, 1).rates)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
