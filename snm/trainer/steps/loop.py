"""The training loop: batches -> compiled steps -> losses, evaluations, checkpoints.

`run_steps` is a generator that trains and yields events in order; its caller prints or logs them.
The steps at which it stops, evaluates and saves do not depend on where it began, so a resumed run
takes the same path.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from snm.batches.device_parts import spread_points, spread_stack
from snm.batches.dispatches import LAST_STEP, SaveTimes, split_into_dispatches
from snm.batches.sources.source import Source
from snm.checkpoints.writer import Store, make_writer
from snm.errors import StoppedError
from snm.model.model import TrainState
from snm.model.placement import remove_padding_rows
from snm.runs.events import (
    Counters,
    Evaluated,
    Event,
    NonFinite,
    NonFiniteError,
    Probed,
    Saved,
    Skipped,
    Stepped,
)
from snm.system.timing import part
from snm.trainer.steps.nonfinite import diagnose, points_of_step
from snm.trainer.steps.programs import StepPrograms

__all__ = [
    "LoopPlan",
    "Probe",
    "Validation",
    "prefetch_stacks",
    "run_steps",
]

Trained = TypeVar("Trained")


class Validation(NamedTuple):
    """Validation while training: it selects the best checkpoint, and stops a run early.

    Attributes:
      metrics: computes the metrics of a state on the validation points.
      every: steps between evaluations; the last step is evaluated too.
      monitor: the metric that decides which checkpoint is best.
      patience: evaluations without a better score after which to stop; 0 never stops early.
    """

    metrics: Callable[[TrainState], dict[str, float]]
    every: int
    monitor: str
    patience: int


class Probe(NamedTuple, Generic[Trained]):
    """A function of the model whose result is an event Probed; its time is no training time.

    Attributes:
      function: of a `Predictor`, as the user gives it, or in the loop of a `TrainState`.
      every: steps between its calls; it is also called before the first and after the last step.
        0 is once an epoch; the loop needs the number.
    """

    function: Callable[[Trained], dict[str, Any]]
    every: int


class LoopPlan(NamedTuple):
    """When the loop ends, dispatches, saves, and what it does about non-finite steps.

    Attributes:
      last_step: steps of the whole run.
      steps_per_dispatch: the most steps per dispatch.
      saves: when checkpoints are saved; the best ones are saved too.
      on_nonfinite: `stop` raises; `skip` skips such steps, and raises after an epoch of them.
      point_ids: int64 [N], the ids of the source's points in messages; None numbers them from 0.
    """

    last_step: int
    steps_per_dispatch: int
    saves: SaveTimes = LAST_STEP
    on_nonfinite: str = "stop"
    point_ids: NDArray[np.int64] | None = None


def run_steps(
    programs: StepPrograms,
    state: TrainState,
    progress: Counters,
    plan: LoopPlan,
    checkpoints: Store,
    *,
    validation: Validation | None = None,
    probe: Probe[TrainState] | None = None,
    stop: Callable[[], bool] | None = None,
) -> Generator[Event, None, TrainState]:
    """Trains from `progress.step` to `plan.last_step`, and yields events.

    Args:
      programs: the compiled steps of the model.
      state: parameters; their buffers are donated.
      progress: counters of the run, which the loop updates in place.
      plan: when to end, dispatch and save.
      checkpoints: the store that saves states.
      validation: the evaluation on validation points, or None.
      probe: another function of the state, or None.
      stop: called after every dispatch. After True the loop saves a checkpoint and ends; a run that
        is resumed from it takes the same steps as one that was never stopped.

    Yields:
      Events. Those of a dispatch come one dispatch later, so that the device never waits.

    Returns:
      The state after the last step.

    Raises:
      NonFiniteError: a loss or gradient was not finite.
      SavingError: a checkpoint could not be written.
      StoppedError: `stop` returned True.
    """
    last_stage, mesh = programs.stages[-1], programs.mesh
    source = last_stage.source  # all stages have the same points
    last_step = plan.last_step
    resident = spread_points(source.resident_arrays(), mesh)
    periods = [look.every for look in (validation, probe) if look is not None]
    dispatches = split_into_dispatches(
        source,
        progress.step,
        last_step,
        plan.steps_per_dispatch,
        saves=plan.saves,
        periods=periods,
        stage_starts=[stage.first_step for stage in programs.stages],
    )
    if probe is not None and not progress.step:
        yield Probed(0, 0.0, probe.function(state))

    def diagnose_step(step: int, loss: float) -> NonFinite:
        stage = programs.stage_at(step)
        return diagnose(
            stage.model, stage.source, resident, state, step, loss, on_mesh=mesh is not None
        )

    pending = _PendingDispatches(source, progress, diagnose_step, plan)
    clock = pending.clock
    to_saved = None
    if mesh is not None:
        to_saved = functools.partial(remove_padding_rows, model=last_stage.model)
    stopping = False
    with make_writer(checkpoints, state, to_saved) as writer:
        stacks = prefetch_stacks(
            lambda step: programs.stage_at(step).source, dispatches, mesh, plan.steps_per_dispatch
        )
        for first, count, stack in stacks:
            with clock.paused():  # compilation does not count as training
                program = programs.for_dispatch(first, state, resident, stack)
            with part("steps"):
                state, metrics = program(state, resident, stack)
            pending.add(first, count, metrics)
            if len(pending) > 1:
                yield from pending.finish_oldest()
            yield from map(Saved, writer.written())
            step = first + count
            evaluate_now = validation is not None and _is_due(step, validation.every, last_step)
            probe_now = probe is not None and _is_due(step, probe.every, last_step)
            save_now = plan.saves.is_due(step, source.steps_per_epoch, last_step)
            stopping = stop is not None and stop()
            if not (evaluate_now or probe_now or save_now or stopping):
                continue
            while pending:
                yield from pending.finish_oldest()
            score, is_best = None, False
            if validation is not None and evaluate_now:
                with part("held-out points"):
                    validation_metrics = validation.metrics(state)
                score = validation_metrics[validation.monitor]
                is_best = progress.record(score, step, validation.patience)
                yield Evaluated(step, validation_metrics, is_best)
            if probe is not None and probe_now:
                yield Probed(step, progress.seconds, probe.function(state))
            if save_now or is_best or progress.stopped or stopping:
                with part("checkpoints"):
                    is_last = step == last_step or progress.stopped or stopping
                    writer.save(step, state, dataclasses.asdict(progress), score, last=is_last)
                yield from map(Saved, writer.written())
            clock.restart()
            if progress.stopped or stopping:
                break
        with part("checkpoints"):
            writer.wait()
        yield from map(Saved, writer.written())
    if stopping or (stop is not None and stop()):
        raise StoppedError(progress.step)
    return state


class _PendingDispatches:
    """Dispatches whose losses the host has not read yet; `finish_oldest` reads those of the first.

    Args:
      source: the batches.
      progress: counters of the run, updated in place.
      diagnose_step: finds the first non-finite tensor of a step, given the step and its loss.
      plan: says what to do about non-finite steps, and the ids of points.
    """

    def __init__(
        self,
        source: Source,
        progress: Counters,
        diagnose_step: Callable[[int, float], NonFinite],
        plan: LoopPlan,
    ):
        self._source, self._progress = source, progress
        self._diagnose_step, self._point_ids = diagnose_step, plan.point_ids
        self._raises = plan.on_nonfinite == "stop"
        self._queue: collections.deque[tuple[int, int, Any]] = collections.deque()
        self.clock = _Clock()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, first: int, count: int, metrics: Any) -> None:
        """Adds a dispatch of `count` steps from `first` on; the device may still compute it."""
        self._queue.append((first, count, metrics))

    def finish_oldest(self) -> Iterator[Event]:
        """Waits for the oldest dispatch, updates the counters, and yields its events.

        Raises:
          NonFiniteError: a loss or gradient was not finite, with `stop`; with `skip`, in all steps
            of an epoch.
        """
        first, count, metrics = self._queue.popleft()
        with part("steps"):  # waits for the device
            losses, ok = np.asarray(metrics.loss, np.float64), np.asarray(metrics.ok)
        losses, ok = losses[:count], ok[:count]  # the other steps are padding
        for index in np.flatnonzero(~ok):
            step, loss = first + int(index), float(losses[index])
            point_ids = points_of_step(self._source, step, self._point_ids)
            if self._raises:
                raise NonFiniteError(step, self._diagnose_step(step, loss), point_ids)
            yield Skipped(step, NonFinite.of_loss(loss).tensor, point_ids)
        progress = self._progress
        _update_skipped(progress, ok)
        if progress.skipped_in_a_row >= self._source.steps_per_epoch:
            last = first + int(np.flatnonzero(~ok)[-1])
            hint = f"{progress.skipped_in_a_row} steps in a row were skipped: that is an epoch"
            diagnosis = self._diagnose_step(last, float(losses[last - first]))
            point_ids = points_of_step(self._source, last, self._point_ids)
            raise NonFiniteError(last, diagnosis, point_ids, hint)
        seconds = self.clock.read()
        progress.step = first + count
        progress.seconds += seconds
        # A step divides by the batch size, also if the last batch of an epoch has fewer points.
        order, steps = self._source.order, range(first, first + count)
        points = np.array([order.num_points_of_step(step) for step in steps])
        loss_sum = math.fsum(losses[ok]) * self._source.batch_size
        mean_loss = loss_sum / int(points[ok].sum()) if ok.any() else math.nan
        yield Stepped(first + count, int(points.sum()), mean_loss, seconds)


def _update_skipped(progress: Counters, ok: np.ndarray) -> None:
    """Counts the skipped steps of a dispatch, and those at its end in a row."""
    progress.skipped += int((~ok).sum())
    taken = np.flatnonzero(ok)
    if taken.size:
        progress.skipped_in_a_row = len(ok) - 1 - int(taken[-1])
    else:
        progress.skipped_in_a_row += len(ok)


class _Clock:
    """Seconds of training, without compilation, evaluation and checkpoints."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._last = time.perf_counter()

    def read(self) -> float:
        last, self._last = self._last, time.perf_counter()
        return self._last - last

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves the time of the block out."""
        start = time.perf_counter()
        yield
        self._last += time.perf_counter() - start


def _is_due(step: int, every: int, last: int) -> bool:
    return step == last or step % every == 0


def prefetch_stacks(
    source_at: Callable[[int], Source],
    dispatches: Iterable[tuple[int, int]],
    mesh: Mesh | None,
    length: int,
) -> Iterator[tuple[int, int, Any]]:
    """Prefetches the stack of batches of each dispatch, in a thread, while the device works.

    Args:
      source_at: the batches, given a step.
      dispatches: the first step and the number of steps of each, from `split_into_dispatches`.
      mesh: the devices, or None for one.
      length: the number of steps that stacks are padded to if the points are on the device.

    Yields:
      The first step of a dispatch, its number of steps, and `Source.stack` of them.
    """

    def load(first: int, count: int) -> Any:
        return spread_stack(source_at(first).stack(first, count, length), mesh)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        remaining = iter(dispatches)
        loading = collections.deque(
            (dispatch, pool.submit(load, *dispatch)) for dispatch in itertools.islice(remaining, 2)
        )
        while loading:
            (first, count), future = loading.popleft()
            with part("waiting for batches"):
                stack = future.result()
            next_dispatch = next(remaining, None)
            if next_dispatch is not None:
                loading.append((next_dispatch, pool.submit(load, *next_dispatch)))
            yield first, count, stack
