"""Keeps the best state in memory, for training without checkpoints."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["BestState"]


class BestState:
    """A `snm.checkpoints.writer.Store` of one state: the best, or the last if none has a score."""

    _state: Any = None

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Keeps the state if it is the best, or has no score.

        A state with a score is copied, because the next step donates its buffers. A state without a
        score is the last one.
        """
        if score is None:
            self._state = state
        elif progress["best_step"] == step:
            self._state = jax.tree.map(lambda leaf: np.array(leaf), state)

    def take(self) -> Any:
        """Returns the state, with its arrays on the device, and releases it."""
        state, self._state = self._state, None
        return jax.tree.map(jnp.asarray, state)
