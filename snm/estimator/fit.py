"""Training in memory: parameters in, parameters out, no run folder. What the estimator trains with.

The steps are those of `training.run_steps`; what a run writes to its folder is kept here instead.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_matrix

from snm.batches.build import keeps_on_device, make_source
from snm.config.settings import Config
from snm.data.weighting import Weighting
from snm.model.from_config import head_stages, make_model
from snm.model.model import Model, TrainState, init_state
from snm.model.predictor import Predictor
from snm.runs.events import Evaluated, Progress, Saved, Stepped
from snm.trainer.loop import run_steps
from snm.trainer.phase import member_seed, steps_per_dispatch

__all__ = ["Fitted", "MemberFit", "Watch", "fit_members"]

_WATCHED = "P@1"


@dataclasses.dataclass(frozen=True, eq=False)
class Watch:
    """Points to stop by.

    Attributes:
      features: float32 CSR [m, d], weighted.
      labels: CSR [m, K], at least one entry.
      patience: epochs without a better precision at 1 after which to stop.
    """

    features: csr_matrix
    labels: csr_matrix
    patience: int

    def precision(self, model: Model, state: TrainState) -> float:
        """Precision at 1 over the points that have labels, in [0, 1]."""
        some = np.flatnonzero(np.diff(self.labels.indptr))
        plain = Weighting.fit("none", self.features)
        model = dataclasses.replace(model, seed=0)  # members share what is compiled
        best, _ = Predictor(model, state, plain).predict(self.features[some], 1)
        return float(np.mean(np.asarray(self.labels[some, best[:, 0]]) != 0))


class _Kept:
    """In the place of a run's checkpoints: the best state, or the last where nothing is watched."""

    state: Any = None
    _score: float | None = None

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Keeps a copy where training goes on from there: its buffers are donated."""
        if score is None:
            self.state = state
        elif self._score is None or score > self._score:
            self.state, self._score = jax.tree.map(lambda leaf: np.array(leaf), state), score


@dataclasses.dataclass(eq=False)
class MemberFit:
    """One member's training over a set of points.

    Args:
      config: resolved settings; `seed` is that of this member and this set of points.
      features: float32 CSR [n, d], weighted.
      labels: CSR [n, K], at least one entry.
      state: parameters to go on from, consumed; None starts anew.
      epochs: passes over the points, or the most of them.
      watch: points to stop by; then `state` is the best one, not the last.
    """

    config: Config
    features: csr_matrix
    labels: csr_matrix
    state: TrainState | None
    epochs: int
    watch: Watch | None = None

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

    def run(self) -> Iterator[Stepped | Evaluated]:
        """Trains to the end, yields each dispatch and score; then `state` is the trained one.

        Raises:
          NonFiniteError: a loss was not finite; the parameters are lost.
        """
        state = self.state
        if state is None:
            state = jax.jit(init_state, static_argnums=0)(self.model)
        self.state = None
        kept, watch = _Kept(), self.watch

        def look(state: TrainState) -> dict[str, float]:
            assert watch is not None
            return {_WATCHED: watch.precision(self.model, state)}

        events = run_steps(
            self.model,
            self._source,
            state,
            Progress(),
            last_step=self.num_steps,
            steps_per_dispatch=self.config.steps_per_dispatch or steps_per_dispatch(),
            checkpoints=kept,
            checkpoint_every=0,
            evaluate=None if watch is None else look,
            evaluate_every=self._source.steps_per_epoch,
            monitor=_WATCHED,
            patience=0 if watch is None else watch.patience,
            heads=head_stages(self.config, self.model.head.num_labels, self.num_steps),
        )
        for event in events:
            if isinstance(event, Stepped | Evaluated):
                yield event
            else:
                assert isinstance(event, Saved)
        self.state = kept.state if watch is None else jax.tree.map(jnp.asarray, kept.state)


@dataclasses.dataclass(frozen=True, eq=False)
class Fitted:
    """What came of training: the members' states, losses of all dispatches, scores a member."""

    states: list[TrainState]
    losses: list[float]
    scores: list[list[float]]


def fit_members(
    config: Config,
    features: csr_matrix,
    labels: csr_matrix,
    earlier: Sequence[TrainState | None],
    epochs: int,
    *,
    watch: Watch | None = None,
    shown: bool = False,
) -> Fitted:
    """Trains members one after the other.

    Args:
      config: resolved settings.
      features: float32 CSR [n, d], weighted.
      labels: CSR [n, K].
      earlier: parameters of each member to go on from, consumed; None starts anew.
      epochs: passes over the points.
      watch: points to stop by.
      shown: whether to draw a progress bar, in a terminal or a notebook.
    """
    found = Fitted([], [], [])
    with _progress(shown) as step:
        for member, state in enumerate(earlier, 1):
            mine = dataclasses.replace(config, seed=member_seed(config.seed, member))
            fit = MemberFit(mine, features, labels, state, epochs, watch)
            scores: list[float] = []
            for event in fit.run():
                if isinstance(event, Evaluated):
                    scores.append(event.metrics[_WATCHED])
                    continue
                found.losses.append(event.loss)
                step(f"member {member} of {len(earlier)}", event.step, fit.num_steps, event.loss)
            assert fit.state is not None
            found.states.append(fit.state)
            found.scores.append(scores)
    return found


@contextlib.contextmanager
def _progress(shown: bool) -> Iterator[Any]:
    """What is told each dispatch; draws a bar where that is wanted."""
    if not shown:
        yield lambda *_: None
        return
    from rich.progress import Progress

    with Progress() as bar:
        tasks: dict[str, Any] = {}

        def step(name: str, done: int, total: int, loss: float) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, description=f"{name}  loss {loss:.4f}")

        yield step
