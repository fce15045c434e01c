"""In memory, the best state is kept, or the last one."""

import jax
import jax.numpy as jnp
import numpy as np

from snm.checkpoints.in_memory import BestState


def test_the_best_state_is_copied():
    best, rows = BestState(), np.zeros(3, np.float32)
    for step, score, best_step in [(1, 0.5, 1), (2, 0.75, 2), (3, 0.25, 2), (4, 0.75, 2)]:
        rows[:] = step  # a host may use its buffers again
        best.save(step, {"rows": rows}, {"best_step": best_step}, score)
    taken = best.take()["rows"]
    assert isinstance(taken, jax.Array) and taken.tolist() == [2, 2, 2]


def test_without_scores_the_last_state_is_taken_as_it_is():
    best, state = BestState(), {"rows": jnp.ones(3)}
    best.save(7, state, {"best_step": 0}, None)
    assert best.take()["rows"] is state["rows"]
