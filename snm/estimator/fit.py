"""Training in memory, for the estimator: parameters in, parameters out, no run folder.

The steps are those of `snm.trainer.loop.run_steps`; the best state is kept in memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_matrix

from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset, Points
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.model.model import Model, TrainState
from snm.prediction.predictor import Predictor
from snm.runs.events import Evaluated, NonFiniteError, Progress, Saved, Skipped, Stepped
from snm.runs.members import member_seed
from snm.trainer.loop import Validation, run_steps
from snm.trainer.prepare import members_at_once, prepare
from snm.trainer.programs import StepPrograms
from snm.trainer.together import Stop, in_order
from snm.trainer.warm_start import initial_state

__all__ = ["Fitted", "MemberFit", "Watch", "fit_members", "held_out"]

_WATCHED = "P@1"


@dataclasses.dataclass(frozen=True, eq=False)
class Watch:
    """Points that early stopping watches.

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
        best, _ = Predictor(model, state, plain).predict(self.features[some], 1)
        return float(np.mean(np.asarray(self.labels[some, best[:, 0]]) != 0))


def held_out(
    dataset: Dataset, weighting: Weighting, *, share: float, patience: int, seed: int
) -> tuple[Points, Watch]:
    """Points to train on, and points to watch.

    Args:
      dataset: with the points of a fit.
      weighting: of features, fitted.
      share: of the points, those to watch (`validation_fraction`).
      patience: as in `Watch` (`n_iter_no_change`).
      seed: of the split.

    Raises:
      InputError: a share or a patience out of range, or a part without labels.
    """
    if not 0 < share < 1:
        raise InputError("validation_fraction", repr(share), "a share above 0 and below 1")
    if not isinstance(patience, int | np.integer) or patience < 1:
        raise InputError("n_iter_no_change", repr(patience), "a number of epochs, 1 or more")
    parts = dataset.split(share, seed)
    assert parts.test is not None
    if not parts.train.labels.nnz or not parts.test.labels.nnz:
        found = f"{share} of {dataset.train.num_points} points"
        raise InputError("validation_fraction", found, "labels in either part")
    watched = weighting.apply(parts.test.features)
    return parts.train, Watch(watched, parts.test.labels, int(patience))


class _BestState:
    """In place of a checkpoint store: holds the best state, or the last if none is scored."""

    state: Any = None
    _score: float | None = None

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Copies a state that is not the last one: the next step takes its buffers."""
        if score is None:
            self.state = state
        elif self._score is None or score > self._score:
            self.state, self._score = jax.tree.map(lambda leaf: np.array(leaf), state), score


@dataclasses.dataclass(eq=False)
class MemberFit:
    """One member's training over a set of points.

    Args:
      config: the settings; `seed` is that of this member and this set of points.
      points: at least one of them has a label.
      weighting: of features, fitted.
      state: parameters to go on from, consumed; None starts anew.
      watch: points that early stopping watches; `state` is then the best one, not the last.
    """

    config: ResolvedConfig
    points: Points
    weighting: Weighting
    state: TrainState | None
    watch: Watch | None = None

    def __post_init__(self) -> None:
        self._prepared = prepare(self.config, self.points, self.weighting, one_device=True)
        self.num_steps = self._prepared.total_steps

    def run(self, stop: Stop) -> Iterator[Stepped | Evaluated]:
        """Trains, and yields each dispatch and each score; afterwards `state` is the trained one.

        Raises:
          StoppedError: `stop` said so; the parameters are lost.
          NonFiniteError: a loss was not finite, or those of an epoch in a row where such steps are
            skipped; the parameters are lost.
        """
        state, prepared = self.state, self._prepared
        if state is None:
            state = initial_state(prepared)
        self.state = None
        kept, watch = _BestState(), self.watch

        validation = None
        if watch is not None:
            validation = Validation(
                lambda state: {_WATCHED: watch.precision(prepared.model, state)},
                prepared.source.steps_per_epoch,
                _WATCHED,
                watch.patience,
            )
        events = run_steps(
            StepPrograms(prepared.model, prepared.source, prepared.stages),
            state,
            Progress(),
            last_step=self.num_steps,
            steps_per_dispatch=prepared.steps_per_dispatch,
            checkpoints=kept,
            checkpoint_every=0,
            validation=validation,
            on_nonfinite=self.config.on_nonfinite,
            point_ids=prepared.point_ids,
            stop=stop,
        )
        try:
            for event in events:
                if isinstance(event, Stepped | Evaluated):
                    yield event
                else:
                    assert isinstance(event, Saved | Skipped)
        except NonFiniteError as error:
            raise error.of_a_fit() from None
        self.state = kept.state if watch is None else jax.tree.map(jnp.asarray, kept.state)


@dataclasses.dataclass(frozen=True, eq=False)
class Fitted:
    """The members' states, the losses of all dispatches, and the scores of each member."""

    states: list[TrainState]
    losses: list[float]
    scores: list[list[float]]


def fit_members(
    config: ResolvedConfig,
    points: Points,
    weighting: Weighting,
    earlier: Sequence[TrainState | None],
    *,
    first: Points | None = None,
    watch: Watch | None = None,
    shown: bool = False,
) -> Fitted:
    """Trains members, as many at once as `snm.trainer.prepare.members_at_once` says.

    Args:
      config: the settings.
      points: at least one of them has a label.
      weighting: of features, fitted.
      earlier: parameters of each member to go on from, consumed; None starts anew.
      first: the points of the first member; None is all.
      watch: points that early stopping watches.
      shown: whether to draw a progress bar, in a terminal or a notebook.
    """
    members = len(earlier)
    found: dict[int, tuple[TrainState, list[float]]] = {}

    def member(number: int, stop: Stop) -> Generator[tuple[str, int, Stepped], None, None]:
        mine = dataclasses.replace(config, seed=member_seed(config.seed, number))
        seen = first if first is not None and number == 1 else points
        fit = MemberFit(mine, seen, weighting, earlier[number - 1], watch)
        scores: list[float] = []
        for event in fit.run(stop):
            if isinstance(event, Evaluated):
                scores.append(event.metrics[_WATCHED])
            else:
                yield f"member {number} of {members}", fit.num_steps, event
        assert fit.state is not None
        found[number] = fit.state, scores

    losses: list[float] = []
    runs = [functools.partial(member, number) for number in range(1, members + 1)]
    with _progress(shown) as step:
        for name, total, event in in_order(runs, members_at_once(config, None)):
            losses.append(event.loss)
            step(name, event.step, total, event.loss)
    states, scores = zip(*(found[number] for number in sorted(found)), strict=True)
    return Fitted(list(states), losses, list(scores))


@contextlib.contextmanager
def _progress(shown: bool) -> Iterator[Any]:
    """A function to call after each dispatch; it draws a bar where `shown`."""
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
