"""Training in memory: parameters in, parameters out, no run folder. What the estimator trains with.

The steps are those of `training.run_steps`; what a run writes to its folder is kept here instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
from scipy.sparse import csr_matrix

from snm.batches import make_source
from snm.config import Config
from snm.loop import Progress, Saved, Stepped, run_steps
from snm.model import Model, TrainState, init_state
from snm.phases import keeps_on_device, steps_per_dispatch
from snm.runs import head_stages, make_model

__all__ = ["MemberFit"]


class _Kept:
    """In the place of a run's checkpoints: the last state that was to be saved."""

    state: Any = None

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Keeps the state: nothing donates its buffers after the last step."""
        self.state = state


@dataclasses.dataclass(eq=False)
class MemberFit:
    """One member's training over a set of points.

    Args:
      config: resolved settings; `seed` is that of this member and this set of points.
      features: float32 CSR [n, d], weighted.
      labels: CSR [n, K], at least one entry.
      state: parameters to go on from, consumed; None starts anew.
      epochs: passes over the points.
    """

    config: Config
    features: csr_matrix
    labels: csr_matrix
    state: TrainState | None
    epochs: int

    def __post_init__(self) -> None:
        config = self.config
        sizes = self.features.shape[1], self.labels.shape[1]
        self.model: Model = make_model(config, *sizes, 1)
        self._source = make_source(
            self.model.head,
            self.features,
            self.labels,
            batch_size=config.batch_size,
            seed=config.seed,
            weight_of_term=config.positive_weights,
            resident=keeps_on_device(config, self.features.nnz, self.labels.nnz),
            sampler=config.sampler,
            frequency_power=config.frequency_power,
        )
        self.num_steps = self.epochs * self._source.steps_per_epoch
        if config.schedule != "constant":  # which has no use for it: one program for any number
            self.model = dataclasses.replace(self.model, total_steps=self.num_steps)

    def run(self) -> Iterator[Stepped]:
        """Trains to the end, yields each dispatch; then `state` is the trained one.

        Raises:
          NonFiniteError: a loss was not finite; the parameters are lost.
        """
        state = self.state
        if state is None:
            state = jax.jit(init_state, static_argnums=0)(self.model)
        self.state = None
        kept = _Kept()
        events = run_steps(
            self.model,
            self._source,
            state,
            Progress(),
            last_step=self.num_steps,
            steps_per_dispatch=self.config.steps_per_dispatch or steps_per_dispatch(),
            checkpoints=kept,
            checkpoint_every=0,
            heads=head_stages(self.config, self.model.head.num_labels, self.num_steps),
        )
        for event in events:
            if isinstance(event, Stepped):
                yield event
            else:
                assert isinstance(event, Saved)
        self.state = kept.state
