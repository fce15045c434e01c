"""In-batch negatives: each positive once, on the host and on the device, and their log weights."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    got = in_batch_log_weights(labels.sum(axis=0), 5, 2)
    assert got.dtype == np.float32
    np.testing.assert_allclose(np.exp(-got.astype(np.float64)), present, rtol=1e-6)
    np.testing.assert_array_equal(in_batch_log_weights(np.array([0, 1]), 5, 5), [0.0, 0.0])
    with pytest.raises(ValueError, match="batch_size"):
        in_batch_log_weights(np.array([1]), 5, 6)


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
