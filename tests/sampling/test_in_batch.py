"""In-batch negatives: each positive once, on the host and on the device, and their log weights."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import snm
from snm.batches.build import make_source
from snm.distributed.dataset import label_draws
from snm.head.spec import HeadSpec
from snm.sampling.in_batch import InBatchSampler, in_batch, in_batch_log_weights


def test_in_batch_takes_each_positive_once():
    labels = np.array([[3, 1, 9], [1, -1, 0]], np.int32)  # 9 and -1 are padding
    sample = jax.jit(in_batch, static_argnums=(1, 2))(labels, 5, 9)
    np.testing.assert_array_equal(sample.ids, [0, 1, 3, 9, 9])
    assert sample.drop == 5 and sample.log_weights is None
    weights = np.arange(9, dtype=np.float32)
    sample = in_batch(labels, 5, 9, label_log_weights=weights)
    np.testing.assert_array_equal(sample.log_weights, [0, 1, 3, -np.inf, -np.inf])


def test_in_batch_weights_by_enumeration():
    # 5 points, batches of 2: the share of the 10 batches in which a label occurs.
    labels = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]])
    batches = list(itertools.combinations(range(5), 2))
    present = np.mean([labels[list(b)].any(axis=0) for b in batches], axis=0)
    got = in_batch_log_weights(all_of(labels.sum(axis=0)), 5, 2)
    assert got.dtype == np.float32
    np.testing.assert_allclose(np.exp(-got.astype(np.float64)), present, rtol=1e-6)
    np.testing.assert_array_equal(in_batch_log_weights(all_of([0, 1]), 5, 5), [0.0, 0.0])
    with pytest.raises(ValueError, match="batch_size"):
        in_batch_log_weights(all_of([1]), 5, 6)


def missing(takes, batch_size):
    """P(no point of a batch takes the label), over all batches; `takes` is float64 [N]."""
    batches = itertools.combinations(range(len(takes)), batch_size)
    return np.mean([np.prod(1 - takes[list(batch)]) for batch in batches])


@pytest.mark.parametrize(("batch_size", "error"), [(1, 1e-6), (2, 1e-6), (4, 0.01), (8, 0.07)])
def test_one_drawn_positive_is_present_less_often_than_it_is_carried(batch_size, error):
    """Points with 1 to 6 labels of which a visit draws one, against all batches of 8 points.

    The formula is exact for up to two places, and neglects little until a batch has most points.
    """
    rng = np.random.default_rng(5)
    labels = rng.random((8, 12)) < rng.uniform(0.1, 0.6, 8)[:, None]
    labels[:, 0] |= ~labels.any(axis=1)
    takes = labels / labels.sum(axis=1, keepdims=True)
    carried = labels.any(axis=0)
    exact = 1 - np.array([missing(takes[:, j], batch_size) for j in np.flatnonzero(carried)])
    sums = np.stack([takes.sum(axis=0), (takes**2).sum(axis=0)])
    got = np.exp(-in_batch_log_weights(sums, 8, batch_size)[carried].astype(np.float64))
    np.testing.assert_allclose(got, exact, rtol=error)
    # What it was corrected by before: the probability that a carrier is in the batch.
    as_carried = 1 - np.array([missing(labels[:, j] * 1.0, batch_size) for j in range(12)])[carried]
    assert (as_carried / exact).max() > 1.4


@pytest.mark.parametrize("positives", ["one", "all"])
def test_the_weights_of_batches_estimate_the_number_of_labels(positives):
    """Over the batches of a source: the mean of the sum of exp(log_weights) is K.

    Before, it was 0.29 K with one positive. Within 4 standard errors, and 3% for strips.
    """
    data = snm.generate(points=600, test_points=1, features=30, labels=80, seed=2)
    labels = data.train.labels
    source = make_source(
        HeadSpec(num_labels=80, sampled=40, mined=4, positives=positives, exclude="all"),
        data.train.features, labels, batch_size=32, seed=3, weight_of_term="mean",
        resident=False, sampler="in-batch", frequency_power=1.0,
    )  # fmt: skip
    steps = source.steps_per_epoch - 1  # the last batch is shorter
    totals = np.array([
        np.exp(source.stack(epoch * source.steps_per_epoch + step, 1).sample.log_weights).sum()
        for epoch in range(12) for step in range(steps)
    ])  # fmt: skip
    occurring = (labels.sum(axis=0) > 0).sum()
    error = totals.std() / np.sqrt(len(totals))
    assert abs(totals.mean() - occurring) < 4 * error + 0.03 * occurring


def all_of(frequency):
    """`label_draws` where every carrier takes the label."""
    return np.tile(np.asarray(frequency, np.float64), (2, 1))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-2, 9), min_size=1, max_size=6), st.sampled_from([3, 7, 9]))
def test_host_and_device_find_the_same_labels(labels, size):
    # Of 7 labels, as a set; sizes below and above the number of positives.
    labels = np.array(labels, np.int32)
    weights = np.linspace(0, 1, 7, dtype=np.float32)
    distinct = sorted({int(label) for label in labels if 0 <= label < 7})[:size]
    unused = size - len(distinct)
    for given_labels in (labels, jnp.asarray(labels)):
        sample = in_batch(given_labels, size, 7, label_log_weights=weights)
        assert all(isinstance(array, type(given_labels)) for array in sample)
        np.testing.assert_array_equal(sample.ids, distinct + [7] * unused)
        expected = [*weights[distinct], *[-np.inf] * unused]
        np.testing.assert_array_equal(sample.log_weights, expected)
        assert sample.drop == size
        assert sample.ids.dtype == sample.drop.dtype == np.int32
        assert sample.log_weights.dtype == np.float32


def test_a_sample_has_a_slot_for_each_positive_or_label():
    sampler = InBatchSampler(5, np.zeros(5, np.float32))
    assert sampler.on_host(0, np.array([4, 4, 5], np.int32)).ids.tolist() == [4, 5, 5]
    positives = jnp.array([0, 1, 2, 3, 4, 4, 2], jnp.int32)
    assert jax.jit(sampler.on_device)(0, positives).ids.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="positives of the batch"):
        sampler.on_host(0, None)


def test_sums_of_draws_are_those_of_a_loop():
    rng = np.random.default_rng(1)
    labels = sparse.csr_matrix((rng.random((50, 7)) < 0.4).astype(np.float32))
    rows = np.flatnonzero(np.diff(labels.indptr))[::2]
    expected = np.zeros((2, 7))
    for row in rows:
        carried = labels[row].indices
        expected[:, carried] += [[1 / len(carried)], [1 / len(carried) ** 2]]
    np.testing.assert_allclose(label_draws(labels, rows, one=True), expected, atol=1e-9)
    frequency = labels[rows].sum(axis=0)
    np.testing.assert_array_equal(
        label_draws(labels, rows, one=False), np.tile(np.asarray(frequency), (2, 1))
    )
