"""Slots of labels in a sample, and the slot that each term leaves out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snm.errors import InputError
from snm.sampling.sample import (
    Sample,
    check_sample,
    excluded_slots,
    sample_of_draws,
    slots_of,
)


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(0, 20), min_size=1), st.integers(0, 22))
def test_slots(ids, drop):
    ids = np.array(sorted(ids) + [21] * (22 - len(ids)), np.int32)
    labels = np.arange(-1, 21, dtype=np.int32).reshape(2, 11)
    got = np.asarray(slots_of(ids, labels))
    excluded = np.asarray(excluded_slots(Sample(ids, np.asarray(drop, np.int32)), labels))
    for at in np.ndindex(2, 11):
        where = np.where(ids == labels[at])[0]
        assert got[at] == (where[0] if len(where) else -1)
        assert excluded[at] == (where[0] if len(where) else drop)
    again = excluded_slots(Sample(ids, np.asarray(drop, np.int32)), labels, slots=got)
    np.testing.assert_array_equal(again, excluded)
    assert got.dtype == excluded.dtype == again.dtype == np.int32


def test_repeated_draws_share_a_slot():
    # Labels 4, 1, 4, 4 with q = 1/2, 1/4: weights 3 / (4 q_4) = 3/2 and 1 / (4 q_1) = 1.
    q = np.array([0, 1 / 4, 0, 0, 1 / 2])
    sample = sample_of_draws(np.array([4, 1, 4, 4]), 5, lambda labels: np.log(q[labels]))
    np.testing.assert_array_equal(sample.ids, [1, 4, 5, 5])
    np.testing.assert_allclose(np.exp(sample.log_weights), [1, 3 / 2, 0, 0], rtol=1e-6)
    assert sample.drop == 4 and sample.ids.dtype == sample.drop.dtype == np.int32


def test_what_a_sampler_may_draw():
    for ids in ([0], [0, 1, 4], [2, 5, 5, 5], [5, 5]):
        check_sample(Sample(np.array(ids, np.int32), np.int32(len(ids))), 5)
    for ids in ([1, 0, 4], [1, 1], [-1, 2], [0, 6], [5, 1, 5], [], [[0, 1]], [0.5, 1.5]):
        with pytest.raises(InputError, match="found other ids drawn, expected labels"):
            check_sample(Sample(np.array(ids), np.int32(len(ids))), 5)
    with pytest.raises(InputError, match="sampler: found ndarray drawn, expected a Sample"):
        check_sample(np.arange(3), 5)
