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
    find_slots,
    sample_of_draws,
)


@settings(max_examples=50, deadline=None)
@given(st.sets(st.integers(0, 20), min_size=1), st.integers(0, 22))
def test_slots(ids, drop):
    ids = np.array(sorted(ids) + [21] * (22 - len(ids)), np.int32)
    labels = np.arange(-1, 21, dtype=np.int32).reshape(2, 11)
    got = np.asarray(find_slots(ids, labels))
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
        check_sample(Sample(np.array(ids, np.int32), np.int32(len(ids))), "here", 5)
    some = np.log(np.array([1, 2, 0], np.float32) + np.array([0, 0, 1e-30], np.float32))
    drawn = Sample(np.array([1, 4, 5]), np.int32(0), some)
    check_sample(drawn, "here", 5, slots=3)
    check_sample(drawn._replace(num_drawn=np.int32(2)), "here", 5, ranks=True)


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(ids=[1, 0, 4]), "label 0 after 1, expected ascending labels, then 5 in unused slots"),
        (dict(ids=[1, 1, 2]), "label 1 after 1"),
        (dict(ids=[5, 1, 5]), "label 1 after 5"),
        (dict(ids=[-1, 2, 3]), "label -1, expected labels from 0 to 4"),
        (dict(ids=[0, 1, 6]), "label 6, expected labels from 0 to 4"),
        (dict(ids=[]), "ids float64[0], expected whole numbers [S]"),
        (dict(ids=[[0, 1, 2]]), "ids int64[1, 3], expected whole numbers [S]"),
        (dict(ids=[0.5, 1.5, 2]), "ids float64[3], expected"),
        (dict(ids=[0, 1]), "2 slots, expected 3: B and one for the positive"),
        (dict(drop=-1), "drop -1, expected a slot from 0 to 3"),
        (dict(drop=np.int32(4)), "drop 4, expected a slot from 0 to 3"),
        (dict(log_weights=np.zeros(2)), "log_weights float64[2], expected floats [3], one a slot"),
        (dict(log_weights=np.array([0, np.nan, 0])), "log_weights that are NaN or inf, expected"),
        (dict(log_weights=np.array([0, np.inf, 0])), "log_weights that are NaN or inf, expected"),
        (dict(num_drawn=np.int32(2)), "num_drawn 2, expected 3, the labels in ids"),
        (dict(num_drawn=3.0), "num_drawn 3.0, expected 3"),
        (dict(ids=[0, 5, 5], num_drawn=[1]), "num_drawn [1], expected 1"),
        (
            dict(ids=[0, 5, 5]),
            "1 label in 3 slots, expected 3 different labels, as the loss weighs",
        ),
    ],
)
def test_what_it_may_not(changes, said):
    given = dict(ids=[0, 1, 4], drop=3) | changes
    drawn = Sample(**given | dict(ids=np.array(given["ids"])))
    with pytest.raises(InputError) as error:
        check_sample(drawn, "sampler Own, step 7", 5, slots=3, ranks=True)
    assert str(error.value).startswith(f"sampler Own, step 7: found {said}")


def test_a_sampler_returns_a_sample():
    with pytest.raises(InputError, match="here: found ndarray drawn, expected a Sample"):
        check_sample(np.arange(3), "here", 5)
