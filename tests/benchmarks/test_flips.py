"""How often a mesh mines another label than one device: the count, and a bound on what it finds."""

import numpy as np
import pytest

import snm
from benchmarks.devices import flips


def mined(slots, scores=None, every=None, loss=1.0):
    slots = np.array(slots)
    scores = np.zeros(slots.shape, np.float32) if scores is None else np.float32(scores)
    return flips.Mined(slots, scores, None if every is None else np.float32(every), loss)


EVERY = [[5, 4, 3, 2, 1], [1, 2, 3, 3 + 2**-21, 0]]


def test_a_flip_is_a_label_that_came_for_another():
    one = mined([[0, 1], [3, 2]], every=EVERY)
    many = mined([[1, 2], [2, 3]], [[4, 3], [3, 3 + 2**-20]], loss=1.5)
    found = flips.Flips()
    found.add(7, one, many)
    assert (found.mined, found.flipped, found.steps, found.first_step) == (4, 1, 1, 7)
    assert found.rate == 0.25
    assert found.widest == 2  # 5 was lost, 3 came
    assert found.widest_in_spacings == found.first_in_spacings == 2 / 2**-21
    assert found.scores == 2**-21  # of the last label of the second point
    assert found.loss == 0.5


def test_the_order_of_the_mined_is_no_flip():
    one = mined([[0, 1], [3, 2]], every=EVERY)
    found = flips.Flips()
    found.add(0, one, mined([[1, 0], [2, 3]]))
    assert found.flipped == 0 and found.first_step is None
    assert found.tied == 0


def test_a_tie_for_the_last_place_is_counted_and_is_no_flip():
    one = mined([[0, 1]], every=[[5, 4, 4, 2]])
    found = flips.Flips()
    found.add(0, one, one)
    assert (found.flipped, found.tied) == (0, 1)


def test_a_gap_is_to_the_best_that_was_lost():
    scores = np.float32([[4, 3, 2, 1]])
    here, there = np.array([[True, True, False, False]]), np.array([[False, False, True, True]])
    gaps, spacings = flips.gaps_of_flips(scores, here, there)
    assert gaps.tolist() == [2, 3]
    assert spacings.tolist() == [2 / np.spacing(np.float32(4)), 3 / np.spacing(np.float32(4))]


@pytest.mark.slow
def test_a_mesh_flips_near_ties_and_nothing_else():
    """From the same parameters; scores are about 10, and sums of 64 products of float32."""
    data = snm.generate(points=640, test_points=1, features=2000, labels=3000, seed=2)
    settings = dict(dim=64, members=1, batch_size=128, sampled=2048, mined=32)
    found = flips.compared(data, flips.MESHES, 20, lambda text: None, **settings)
    for mesh, what, count, one in found:
        print(f"\n{mesh}, {what}: {one}")
        assert one.mined == 20 * 128 * count
        assert one.loss < 1e-4
        if what == "same state":
            assert one.rate < 1e-4
            assert one.widest_in_spacings <= 32
            assert one.scores < 1e-5
        assert one.first_in_spacings <= 256  # what begins it is a near tie too
