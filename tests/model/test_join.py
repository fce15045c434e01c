"""The parameters of several members as one state."""

import dataclasses
import weakref

import jax
import numpy as np
import pytest
import tiny

from snm.model.from_config import make_model
from snm.model.inference import join_members, join_members_one_by_one
from snm.model.placement import init_state_on


def state_of(seed, **changes):
    config = tiny.resolved(dataclasses.replace(tiny.CONFIG, score_scale=1.5, **changes))
    return init_state_on(make_model(config, 30, 20), seed=seed)


@pytest.mark.parametrize("changes", [{}, {"table_dtype": "bfloat16"}, {"bias": False}])
@pytest.mark.parametrize("members", [1, 3])
def test_members_that_are_read_one_by_one_are_joined_alike(members, changes):
    states = [state_of(seed, **changes) for seed in range(members)]
    found, expected = join_members_one_by_one(iter(states), members), join_members(states)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(other))


def test_one_is_released_before_the_next_is_read(collect):
    alive = []

    def reading():
        for seed in range(3):
            collect()
            assert not any(table() is not None for table in alive)
            state = state_of(seed)
            alive.append(weakref.ref(state.head.table.rows))
            yield state
            del state

    join_members_one_by_one(reading(), 3)
    assert len(alive) == 3
