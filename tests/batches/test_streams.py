"""No two uses of a seed draw the same numbers."""

import numpy as np

from snm.batches.dropout import dropout_keys
from snm.batches.epoch_order import Order
from snm.batches.streams import Stream
from snm.sampling.sample import STREAM


def test_streams_are_distinct():
    states = {
        tuple(stream.seed_sequence(seed, number).generate_state(4))
        for stream in Stream for seed in range(3) for number in range(4)
    }  # fmt: skip
    samples = {
        tuple(np.random.SeedSequence([seed, STREAM, step]).generate_state(4))
        for seed in range(3) for step in range(4)
    }  # fmt: skip
    assert len(states | samples) == (len(Stream) + 1) * 3 * 4


def test_further_splits_and_dropout_are_independent_of_positives_and_order():
    """They were not: NumPy takes the words (3, 2) and (3, 2, 0) for the same seed."""
    positives = Order(100, 10, 3).epoch(0)[1]
    assert not np.isin(np.random.default_rng([3, 2]).random(100), positives, invert=True).any()
    assert not np.isin(
        np.random.default_rng(Stream.SPLITS.seed_sequence(3, 2)).random(100), positives
    ).any()
    keys = dropout_keys(3, 1, np.arange(100))
    of_order = np.random.SeedSequence([3, 1, 0]).generate_state(2, np.uint32)
    assert (Stream.DROPOUT.seed_sequence(3, 1).generate_state(2, np.uint32) != of_order).all()
    assert len(np.unique(keys)) == 100
