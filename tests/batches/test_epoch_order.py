"""The order of points: each once an epoch, each in its strip, the same whoever asks."""

import dataclasses
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from snm.batches.epoch_order import Order


@settings(deadline=None)
@given(
    points=st.integers(1, 400),
    batch=st.integers(1, 200),
    data_parts=st.sampled_from([1, 2, 3, 8]),
    seed=st.integers(0, 5),
)
def test_every_point_stands_once_in_an_epoch_at_a_place_of_its_strip(
    points, batch, data_parts, seed
):
    order = Order.of(points, batch * data_parts, seed, data_parts)
    steps, draws = order.epoch(3)
    assert steps.shape == (order.steps, order.batch_size)
    assert order.steps == -(-points // order.batch_size)
    assert sorted(steps[steps >= 0]) == list(range(points))
    assert draws.shape == (points,) and (draws >= 0).all() and (draws < 1).all()
    # Whatever the parts that machines take: who makes the places has their points.
    for parts in {1, 2, data_parts, order.batch_size} & set(range(1, order.batch_size + 1)):
        edges = np.linspace(0, order.batch_size, parts + 1).astype(int)
        for first, last in pairwise(edges):
            seen = steps[:, first:last]
            own = order.points_at_positions(int(first), int(last))
            assert np.isin(seen[seen >= 0], own).all()
    counts = [order.num_points_of_step(7 * order.steps + step) for step in range(order.steps)]
    assert counts == (steps >= 0).sum(axis=1).tolist()


def test_each_epoch_has_an_order_and_draws_of_its_own():
    """With another seed too; numbers of the same epoch are the same."""
    order = Order.of(100, 10, seed=1)
    epochs = [order.epoch(0), order.epoch(1), Order.of(100, 10, seed=2).epoch(0)]
    for number, (steps, draws) in enumerate(epochs):
        for other_steps, other_draws in epochs[:number]:
            assert (steps != other_steps).any() and np.abs(draws - other_draws).max() > 0.1
    again = Order.of(100, 10, seed=1).epoch(1)
    np.testing.assert_array_equal(again[1], epochs[1][1])


def test_an_order_with_another_seed_has_its_own_epochs():
    order = Order.of(100, 10, seed=1)
    order.epoch(0)
    steps, draws = dataclasses.replace(order, seed=2).epoch(0)
    expected_steps, expected_draws = Order.of(100, 10, seed=2).epoch(0)
    np.testing.assert_array_equal(steps, expected_steps)
    np.testing.assert_array_equal(draws, expected_draws)


def test_a_part_needs_no_more_points_than_its_places():
    order = Order.of(1000, 128, 0)
    parts = [order.points_at_positions(16 * part, 16 * part + 16) for part in range(8)]
    assert [len(part) for part in parts] == [125] * 8
    # With an odd batch there is one strip, which all need.
    assert order.of(1000, 33, 0).points_at_positions(0, 1) == range(1000)


def test_points_meet_each_other():
    """Two points of any two strips, and of one, meet as often as chance has it (within 5 sigma)."""
    order = Order.of(256, 128, seed=1)  # 4 points a strip, of which a batch takes 2
    meetings = np.zeros((256, 256))
    epochs = 400
    for number in range(epochs):
        for batch in order.epoch(number)[0]:
            meetings[np.ix_(batch, batch)] += 1
    apart, together = meetings[:4, 4:], meetings[:4, :4][~np.eye(4, dtype=bool)]
    for found, chance in ((apart, 1 / 2), (together, 1 / 3)):
        sigma = np.sqrt(epochs * chance * (1 - chance))
        assert np.abs(found - epochs * chance).max() < 5 * sigma


def test_few_epochs_are_kept():
    order = Order.of(500, 64, seed=2)
    for number in range(10):
        order.epoch(number)
    assert len(order._epochs) <= 4
