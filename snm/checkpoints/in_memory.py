"""What a training in memory has in place of checkpoints."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["BestState"]


class BestState:
    """A `snm.checkpoints.writer.Store` of one state: the best, or the last if none is scored."""

    _state: Any = None

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Holds the state if it is the best, or has no score.

        A state with a score is copied: the next step takes its buffers. One without is the last.
        """
        if score is None:
            self._state = state
        elif progress["best_step"] == step:
            self._state = jax.tree.map(lambda leaf: np.array(leaf), state)

    def take(self) -> Any:
        """The state, whose arrays are on the device; it is held no longer."""
        state, self._state = self._state, None
        return jax.tree.map(jnp.asarray, state)
