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
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from snm.batches.device_parts import spread_points, spread_stack
from snm.batches.sources.source import Source
from snm.checkpoints.writer import Store, make_writer
from snm.errors import StoppedError
from snm.model.model import TrainState
from snm.model.placement import remove_padding_rows
from snm.runs.events import (
    Evaluated,
    Event,
    NonFinite,
    NonFiniteError,
    Probed,
    Progress,
    Saved,
    Skipped,
    Stepped,
)
from snm.system.timing import part
from snm.trainer.nonfinite import diagnose, points_of_step
from snm.trainer.programs import StepPrograms

__all__ = ["Course", "Probe", "Validation", "Watch", "ahead", "dispatches", "run_steps"]


class Validation(NamedTuple):
    """Scores on held-out points, which tell the best checkpoint and when to end.

    Attributes:
      metrics: those of a state.
      every: steps between evaluations; the last step is evaluated too.
      monitor: the metric that decides which checkpoint is best.
      patience: evaluations without a better score after which to stop; 0 never stops.
    """

    metrics: Callable[[TrainState], dict[str, float]]
    every: int
    monitor: str
    patience: int


class Probe(NamedTuple):
    """A look at the state whose result is an event Probed; its time does not count as training.

    Attributes:
      look: the function.
      every: steps between its calls; it is also called before the first and after the last step.
    """

    look: Callable[[TrainState], dict[str, Any]]
    every: int


_Look = TypeVar("_Look", Validation, Probe)


class Watch(NamedTuple):
    """What looks on while the loop runs.

    Attributes:
      validation: what is evaluated on the way, or nothing.
      probe: what else looks at the state, or nothing.
      stop: asked after every dispatch. After True the loop saves a checkpoint and ends; a run that
        goes on from there takes the same path as one that was never stopped.
    """

    validation: Validation | None = None
    probe: Probe | None = None
    stop: Callable[[], bool] | None = None


class Course(NamedTuple):
    """What the loop does at which step.

    Attributes:
      last_step: steps of the whole run.
      steps_per_dispatch: steps that the device runs between two exchanges with the host.
      checkpoint_every: steps between checkpoints, beside the best ones and the last; 0 saves these
        alone.
      on_nonfinite: `stop` raises; `skip` leaves such steps out, and raises after an epoch of them.
      point_ids: int64 [N], what messages call each point of the source; None numbers them from 0.
    """

    last_step: int
    steps_per_dispatch: int
    checkpoint_every: int
    on_nonfinite: str = "stop"
    point_ids: NDArray[np.int64] | None = None


def run_steps(
    programs: StepPrograms,
    state: TrainState,
    progress: Progress,
    course: Course,
    checkpoints: Store,
    watch: Watch | None = None,
) -> Generator[Event, None, TrainState]:
    """Trains from `progress.step` to `course.last_step`, and yields events.

    Args:
      programs: of the model and its batches, perhaps begun.
      state: parameters; their buffers are donated.
      progress: counters of the run, which the loop updates in place.
      course: what is done at which step.
      checkpoints: the store that saves states.
      watch: what looks on; None is nothing.

    Yields:
      Events; those of a dispatch come one dispatch later, so that the device has work meanwhile.

    Returns:
      The state after the last step.

    Raises:
      NonFiniteError: a loss or gradient was not finite.
      SavingError: a checkpoint could not be written.
      StoppedError: `watch.stop` said so.
    """
    source, mesh = programs.source, programs.mesh
    last_step, steps_per_dispatch, checkpoint_every = course[:3]
    validation, probe, stop = watch or Watch()
    resident = source.resident_arrays()
    if mesh is not None:
        resident = spread_points(resident, source.data_parts, mesh)
    marks = [checkpoint_every, *(one.every for one in (validation, probe) if one is not None)]
    starts = [stage.first_step for stage in programs.stages]
    plan = dispatches(source, progress.step, last_step, steps_per_dispatch, marks, starts)
    if probe is not None and not progress.step:
        yield Probed(0, 0.0, probe.look(state))

    def diagnosed(step: int, loss: float) -> NonFinite:
        model, batches = programs.stage_at(step)
        return diagnose(model, batches, resident, state, step, loss, on_mesh=mesh is not None)

    reports = _Reports(source, progress, diagnosed, course)
    clock = reports.clock
    as_saved = (
        None if mesh is None else functools.partial(remove_padding_rows, model=programs.model)
    )
    stopping = False
    with make_writer(checkpoints, state, as_saved) as writer:
        stacks = ahead(lambda step: programs.stage_at(step)[1], plan, mesh, steps_per_dispatch)
        for first, count, stack in stacks:
            with clock.paused():  # compiling is no part of the steps' time
                program = programs.for_dispatch(first, state, resident, stack)
            with part("steps"):
                state, metrics = program(state, resident, stack)
            reports.add(first, count, metrics)
            if len(reports) > 1:
                yield from reports.oldest()
            yield from map(Saved, writer.written())
            done = first + count
            validating = _if_due(validation, done, last_step)
            probing = _if_due(probe, done, last_step)
            saving = _due(done, checkpoint_every, last_step)
            stopping = stop is not None and stop()
            if not (validating or probing or saving or stopping):
                continue
            while reports:
                yield from reports.oldest()
            score, best = None, False
            if validating is not None:
                with part("held-out points"):
                    metrics_held_out = validating.metrics(state)
                score = metrics_held_out[validating.monitor]
                best = progress.record(score, done, validating.patience)
                yield Evaluated(done, metrics_held_out, best)
            if probing is not None:
                yield Probed(done, progress.seconds, probing.look(state))
            if saving or best or progress.stopped or stopping:
                with part("checkpoints"):
                    last = done == last_step or progress.stopped or stopping
                    writer.save(done, state, dataclasses.asdict(progress), score, last=last)
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


class _Reports:
    """Dispatches whose losses the host has not read yet; `oldest` turns the first into events.

    Args:
      source: the batches.
      progress: counters of the run, updated in place.
      diagnosed: finds what was not finite, given a step and its loss.
      course: tells what then happens, and the names of points.
    """

    def __init__(
        self,
        source: Source,
        progress: Progress,
        diagnosed: Callable[[int, float], NonFinite],
        course: Course,
    ):
        self._source, self._progress = source, progress
        self._diagnosed, self._point_ids = diagnosed, course.point_ids
        self._stops = course.on_nonfinite == "stop"
        self._waiting: collections.deque[tuple[int, int, Any]] = collections.deque()
        self.clock = _Clock()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, first: int, count: int, metrics: Any) -> None:
        """A dispatch of `count` steps from `first` on, which the device may still compute."""
        self._waiting.append((first, count, metrics))

    def oldest(self) -> Iterator[Event]:
        """Waits for the oldest dispatch, and yields its events.

        Raises:
          NonFiniteError: a loss or gradient was not finite, with `stop`; with `skip`, in all steps
            of an epoch.
        """
        first, count, metrics = self._waiting.popleft()
        with part("steps"):  # waits for the device
            losses, ok = np.asarray(metrics.loss, np.float64), np.asarray(metrics.ok)
        losses, ok = losses[:count], ok[:count]  # the rest fills the dispatch up
        for place in np.flatnonzero(~ok):
            step = first + int(place)
            named = points_of_step(self._source, step, self._point_ids)
            if self._stops:
                raise NonFiniteError(step, self._diagnosed(step, float(losses[place])), named)
            yield Skipped(step, NonFinite.of_loss(float(losses[place])).tensor, named)
        progress = self._progress
        _count_skipped(progress, ok)
        if progress.skipped_in_a_row >= self._source.steps_per_epoch:
            last = first + int(np.flatnonzero(~ok)[-1])
            hint = f"{progress.skipped_in_a_row} steps in a row were skipped: that is an epoch"
            found = self._diagnosed(last, float(losses[last - first]))
            named = points_of_step(self._source, last, self._point_ids)
            raise NonFiniteError(last, found, named, hint)
        seconds = self.clock.read()
        progress.step = first + count
        progress.seconds += seconds
        # A step divides by the batch size, also where the last batch of an epoch has fewer points.
        points = np.array([self._source.order.points_in(first + row) for row in range(count)])
        of_points = math.fsum(losses[ok]) * self._source.batch_size
        loss = of_points / int(points[ok].sum()) if ok.any() else math.nan
        yield Stepped(first + count, int(points.sum()), loss, seconds)


def _count_skipped(progress: Progress, ok: np.ndarray) -> None:
    progress.skipped += int((~ok).sum())
    taken = np.flatnonzero(ok)
    row = len(ok) - 1 - int(taken[-1]) if taken.size else progress.skipped_in_a_row + len(ok)
    progress.skipped_in_a_row = row


class _Clock:
    """Seconds of training, without compiling, and without what comes before a restart."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._last = time.perf_counter()

    def read(self) -> float:
        last, self._last = self._last, time.perf_counter()
        return self._last - last

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """The block does not count."""
        begun = time.perf_counter()
        yield
        self._last += time.perf_counter() - begun


def _due(step: int, every: int, last: int) -> bool:
    return step == last or (every > 0 and step % every == 0)


def _if_due(one: _Look | None, step: int, last: int) -> _Look | None:
    return one if one is not None and _due(step, one.every, last) else None


def dispatches(
    source: Source, first: int, last: int, longest: int, marks: list[int], stage_starts: list[int]
) -> Iterator[tuple[int, int]]:
    """Splits steps first to last - 1 into dispatches of at most `longest` steps.

    Dispatches end with epochs, at multiples of `marks`, and before `stage_starts`, the first steps
    of stages.

    Yields:
      The first step of each, and its number of steps.
    """
    marks = [source.steps_per_epoch, *(mark for mark in marks if mark)]
    while first < last:
        stop = min(last, first + longest, *(first - first % mark + mark for mark in marks))
        stop = min([stop, *(start for start in stage_starts if start > first)])
        yield first, stop - first
        first = stop


def ahead(
    source_at: Callable[[int], Source],
    plan: Iterable[tuple[int, int]],
    mesh: Mesh | None,
    length: int,
) -> Iterator[tuple[int, int, Any]]:
    """The stacks of batches; a thread makes them while the device runs the one before.

    Args:
      source_at: the batches of a step.
      plan: first step and number of steps of each.
      mesh: the devices, or None for one.
      length: what stacks are filled up to, where the device has the points.
    """

    def made(first: int, count: int) -> Any:
        source = source_at(first)
        stack = source.stack(first, count, length)
        return stack if mesh is None else spread_stack(stack, source.data_parts, mesh)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        rest = iter(plan)
        begun = collections.deque(
            (one, pool.submit(made, *one)) for one in itertools.islice(rest, 2)
        )
        while begun:
            (first, count), future = begun.popleft()
            with part("waiting for batches"):
                stack = future.result()
            following = next(rest, None)
            if following:
                begun.append((following, pool.submit(made, *following)))
            yield first, count, stack
