"""Training in memory, for the estimator: parameters in, parameters out, no run folder."""

from __future__ import annotations

import functools
from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snm.checkpoints.in_memory import BestState
from snm.model.model import TrainState
from snm.runs.events import Evaluated, Event, NonFiniteError, Started, Stepped
from snm.trainer.parallel_members import Stop, run_members
from snm.trainer.phase import PhaseInputs, first_phase
from snm.trainer.phase_run import open_phase_in_memory
from snm.trainer.start.prepare import members_at_once

__all__ = ["fit_members"]

# A fit writes no log and no checkpoints, of which the hint of a run tells.
_HINT = (
    "Rows are those of X, without points of weight 0. A model in training is lost, unless "
    "this was partial_fit. A lower learning_rate or score_scale usually helps; "
    "settings={'on_nonfinite': 'skip'} drops such batches"
)


class FitResult(NamedTuple):
    """The result of `fit_members`.

    Attributes:
      states: the final state of each member, or its best one if points were held out.
      losses: the loss of each dispatch.
      scores: precision at 1 of each member after each epoch, in [0, 1].
    """

    states: list[TrainState]
    losses: list[float]
    scores: list[list[float]]


def fit_members(
    inputs: PhaseInputs,
    earlier: Sequence[TrainState | None],
    *,
    kept: NDArray[np.int64] | None = None,
    in_parts: bool = False,
    shown: bool = False,
) -> FitResult:
    """Trains all members, in parallel if `snm.trainer.start.prepare.members_at_once` allows it.

    Args:
      inputs: of all phases; at least one of the points has a label.
      earlier: the state of each member to continue from, consumed; None starts anew.
      kept: int64 [n], ascending, the points not held out for a memory; None is all.
      in_parts: whether more fits follow that continue from this one.
      shown: whether to show a progress bar, in a terminal or a notebook.

    Raises:
      InputError: the held-out points, or the others, have no label.
      NonFiniteError: a loss was not finite, or those of an epoch in a row where such steps are
        skipped; the states of `earlier` are consumed.
    """
    phase = first_phase(inputs.config, inputs.dataset)

    def member(number: int, stop: Stop) -> Generator[Event, None, TrainState]:
        member_phase, best = phase.of_member(number, kept), BestState()
        run = open_phase_in_memory(
            inputs, member_phase, earlier[number - 1], best, more_phases=in_parts
        )
        yield from run.run(stop)
        return best.take()

    result = FitResult([], [], [])
    runs = [functools.partial(member, number) for number in range(1, len(earlier) + 1)]

    def training() -> Generator[Event]:
        states = yield from run_members(runs, members_at_once(inputs.config, None))
        result.states.extend(states)

    events = training()
    if shown:
        from snm.runs.log.progress_bar import show_progress

        events = show_progress(events)
    try:
        for event in events:
            if isinstance(event, Started):
                result.scores.append([])
            elif isinstance(event, Stepped):
                result.losses.append(event.loss)
            elif isinstance(event, Evaluated):
                result.scores[-1].append(event.metrics["P@1"] / 100)
    except NonFiniteError as error:
        raise NonFiniteError(error.step, error.found, error.points, _HINT) from None
    return result
