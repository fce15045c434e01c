"""Checkpoints of a run: the only file that knows orbax.

A checkpoint holds the arrays of the training state, and the loop's own numbers as JSON beside
them. Orbax writes into a temporary folder and renames it, so that what can be listed is whole.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
from orbax.checkpoint import v1 as ocp

__all__ = ["Checkpoints"]

_POLICIES = ocp.training.preservation_policies
_LOOKS = 20  # at a folder whose listing changes while it is read


class Checkpoints:
    """The checkpoints in a folder: the newest few, and the best by score.

    Args:
      folder: made when the first checkpoint is saved.
      keep: how many of the newest to keep.
    """

    def __init__(self, folder: Path, *, keep: int = 2):
        self._folder = folder.resolve()
        self._keep = keep

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Writes a checkpoint and drops those that are neither new nor best.

        Args:
          step: steps done.
          state: a pytree of arrays.
          progress: JSON values of the loop.
          score: higher is better; None where nothing was measured.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._open(writing=True) as store:
            store.save_checkpointables(
                step,
                dict(state=state),
                force=True,
                overwrite=True,
                metrics=None if score is None else {"score": score, "step": step},
                custom_metadata=progress,
            )

    def latest(self) -> int | None:
        """The step of the newest checkpoint, or None."""
        steps = self.steps()
        return max(steps) if steps else None

    def best(self) -> int | None:
        """The step of the checkpoint with the highest score, the earliest of equals, or None."""
        scored = [(-score, step) for step, score in self.steps().items() if score is not None]
        return min(scored)[1] if scored else self.latest()

    def steps(self) -> dict[int, float | None]:
        """The score of each checkpoint, by step."""
        if not self._folder.is_dir():
            return {}
        with self._open() as store:
            return {
                checkpoint.step: (checkpoint.metrics or {}).get("score")
                for checkpoint in store.checkpoints
            }

    def progress(self, step: int) -> dict[str, Any]:
        """The loop's numbers in a checkpoint."""
        with self._open() as store:
            return dict(store.checkpointables_metadata(step).custom_metadata or {})

    def load(self, step: int, like: Any, *, on_host: bool = False) -> Any:
        """The arrays of a checkpoint, in the structure, shapes and types of `like`.

        On the first device, or on the host, from where they can be spread over a mesh.
        """
        place = jax.devices("cpu" if on_host else None)[0]
        device = jax.sharding.SingleDeviceSharding(place)
        abstract = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), like
        )
        with self._open() as store:
            return store.load_checkpointables(step, dict(state=abstract))["state"]

    @contextlib.contextmanager
    def _open(self, writing: bool = False) -> Iterator[ocp.training.Checkpointer]:
        store = self._checkpointer(writing)
        try:
            yield store
        finally:
            store.close()

    def _checkpointer(self, writing: bool) -> ocp.training.Checkpointer:
        for _ in range(_LOOKS - 1):
            try:
                return self._listed(writing)
            except FileNotFoundError:
                # A run that is alive dropped a checkpoint between its listing and its reading.
                time.sleep(0.05)
        return self._listed(writing)

    def _listed(self, writing: bool) -> ocp.training.Checkpointer:
        return ocp.training.Checkpointer(
            self._folder,
            preservation_policy=_POLICIES.AnyPreservationPolicy(
                [
                    _POLICIES.LatestN(self._keep),
                    _POLICIES.BestN(
                        n=1,
                        get_metric_fn=lambda metrics: (metrics["score"], -metrics["step"]),
                        keep_checkpoints_without_metrics=False,
                    ),
                ]
            ),
            # What a killed run left half-written; to a reader it may be a run's that is alive.
            cleanup_tmp_directories=writing,
        )
