"""The frequency sampler: its probabilities, and the log weights that make the softmax unbiased.

A statistical test here rejects below p = 1e-4 with a fixed seed, so it either always passes or
always fails; the biases it would miss are stated beside it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import tiny
from scipy import stats

import snm
from snm.config.resolve import resolve
from snm.errors import InputError
from snm.sampling.frequency import FrequencySampler
from snm.sampling.protocol import SamplerInputs

P_VALUE = 1e-4


def test_frequency_sampler_follows_its_probabilities():
    frequency = np.array([0, 1, 4, 9, 99])
    sampler = FrequencySampler(frequency, 0.5, size=8, seed=5)
    q = np.sqrt(frequency + 1.0)
    np.testing.assert_allclose(np.exp(sampler.log_q), q / q.sum(), rtol=1e-14)
    counts = np.zeros(5)
    for step in range(2000):
        sample = sampler.on_host(step)
        real = sample.ids < 5
        counts[sample.ids[real]] += np.exp(
            sample.log_weights[real] + sampler.log_q[sample.ids[real]]
        )
        assert np.all(np.diff(sample.ids[real]) > 0) and sample.drop == 8
        assert np.all(sample.ids[~real] == 5) and np.all(sample.log_weights[~real] == -np.inf)
    assert stats.chisquare(counts * 8, np.exp(sampler.log_q) * 16_000).pvalue > P_VALUE


def test_log_q_makes_the_partition_function_unbiased():
    # E[sum_slots exp(log_weights) f] = sum_j f_j, here by all draws of 3 from 4 labels. A draw's
    # weights depend on which labels it has and how often, so replay them through the sampler.
    frequency, size = np.array([1, 2, 3, 1]), 3
    sampler = FrequencySampler(frequency, 1.0, size=size)
    q, f = np.exp(sampler.log_q), np.array([0.3, 2.0, 1.5, 0.7])
    seen: dict[tuple, float] = {}
    for step in range(1500):
        sample = sampler.on_host(step)
        real = sample.ids < 4
        weights = np.exp(sample.log_weights[real].astype(np.float64))
        ids = sample.ids[real]
        counts = np.rint(weights * size * q[ids]).astype(int)
        seen[tuple(np.repeat(ids, counts))] = float(weights @ f[ids])
    draws = list(itertools.product(range(4), repeat=size))
    assert {tuple(sorted(d)) for d in draws} == seen.keys()
    mean = sum(math.prod(q[list(d)]) * seen[tuple(sorted(d))] for d in draws)
    assert mean == pytest.approx(f.sum(), rel=1e-6)


def weight_of_ranks(distribution, sampled, mined):
    """What the negatives of a loss by rank weigh in all, over all draws with replacement.

    The k' hardest of the distinct labels weigh 1/k' each; B + 1 are drawn, and label 0 is the
    positive.
    """
    draws = itertools.product(range(len(distribution)), repeat=sampled + 1)
    found = ((math.prod(distribution[i] for i in draw), len(set(draw) - {0})) for draw in draws)
    return sum(probability * min(count, mined) / mined for probability, count in found)


@pytest.mark.parametrize("loss", ["bowl", "powl", "ranksvm"])
def test_weights_of_ranks_are_refused(loss):
    """Negatives should weigh 1 in all; the 2 hardest of 4 draws of 5 labels would weigh 0.95."""
    # By hand: a half is missing where only one other label is drawn, all where none is.
    none, one = 0.2**4, 4 * (0.4**4 - 0.2**4)
    assert weight_of_ranks([0.2] * 5, 3, 2) == pytest.approx(1 - none - one / 2)
    data = snm.generate(points=30, test_points=1, features=20, labels=20, seed=0)
    config = dataclasses.replace(tiny.CONFIG, loss=loss, sampler="frequency")
    with pytest.raises(InputError, match=f"sampler: found frequency with loss {loss}, expected"):
        resolve(config, data)
    for fine in (dict(loss="softmax"), dict(loss="listmle"), dict(sampler="uniform")):
        resolve(dataclasses.replace(config, **fine), data)


def test_frequency_sampler_refuses_bad_input():
    for frequency, power in (([], 1.0), ([-1], 1.0), ([[1]], 1.0), ([1], -1.0)):
        with pytest.raises(ValueError, match="label_frequency"):
            FrequencySampler(np.array(frequency), power)
    with pytest.raises(ValueError, match="size"):
        FrequencySampler(np.array([1]), 1.0, size=0)


def test_a_run_builds_it_from_its_frequencies_and_settings():
    frequency = np.array([3, 0, 7])
    inputs = SamplerInputs(num_labels=3, size=5, seed=2, num_points=9, batch_size=4,
                           label_frequency=frequency, options={"frequency_power": 0.5})  # fmt: skip
    built = FrequencySampler.build(inputs)
    expected = FrequencySampler(frequency, 0.5, size=5, seed=2)
    assert built.num_labels == 3
    for one, other in zip(built.on_host(7), expected.on_host(7), strict=True):
        np.testing.assert_array_equal(one, other)


def test_each_step_and_seed_has_its_own_draw():
    frequency = np.arange(1000)
    first, again, other = (
        FrequencySampler(frequency, 1.0, size=50, seed=seed).on_host(step).ids
        for seed, step in ((1, 2), (1, 2), (2, 1))
    )
    np.testing.assert_array_equal(first, again)
    assert len(np.intersect1d(first, other)) < 20
    assert not np.array_equal(
        first, FrequencySampler(frequency, 1.0, size=50, seed=1).on_host(3).ids
    )


def test_a_large_power_does_not_overflow():
    """Of 201 and 3 to the power 300, the second is lost in float64, and its logarithm is not."""
    sampler = FrequencySampler(np.array([200, 2]), 300.0, size=4)
    np.testing.assert_allclose(sampler.log_q, [0, 300 * np.log(3 / 201)], atol=1e-12)
    sample = sampler.on_host(0)
    assert np.isfinite(sample.log_weights[sample.ids == 0]).all() and 0 in sample.ids
