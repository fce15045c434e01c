"""Trains one phase: `open_phase` resumes it from a run's folder, or it is kept in memory."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh

from snm.batches.dispatches import LAST_STEP
from snm.batches.sources.source import Source
from snm.checkpoints.in_memory import BestState
from snm.checkpoints.writer import Store
from snm.distributed.dataset import label_frequency_together
from snm.distributed.processes import is_first_process
from snm.errors import InputError
from snm.evaluation.evaluate import Measures, TrainCounts, evaluate_points
from snm.machine.compiler import step_options
from snm.machine.versions import versions
from snm.model.model import TrainState
from snm.model.placement import abstract_state_on
from snm.prediction.predictor import Predictor
from snm.runs.events import Counters, Event, NonFiniteError, Noted, Started
from snm.runs.log.entries import has_phase
from snm.runs.log.event_log import open_log
from snm.system.imports import import_in_background
from snm.system.timing import part
from snm.trainer.phase import Phase, PhaseInputs, RunInputs, TrainedPhase
from snm.trainer.start.prepare import Prepared, members_at_once, prepare
from snm.trainer.start.start_notes import start_notes, version_notes
from snm.trainer.start.warm_start import WarmStart, starting_state
from snm.trainer.steps.loop import LoopPlan, Probe, Validation, run_steps
from snm.trainer.steps.programs import StepPrograms

__all__ = ["PhaseRun", "open_phase", "open_phase_in_memory"]

_IMPORTED_EARLY = ("snm.runs.log.tensorboard", "orbax.checkpoint.v1", "scipy.optimize")
"""Modules that a run needs at its first event, its first checkpoint and its end."""
_PROFILED_EVENTS = (1, 5)  # the first and the last one; event 0 has the compilation


def open_phase(
    inputs: RunInputs,
    phase: Phase,
    epochs: float | None = None,
    *,
    probe: Probe[Predictor] | None = None,
) -> PhaseRun:
    """Prepares a phase; resumes it from its newest checkpoint, or starts it if there is none.

    Args:
      inputs: of all phases.
      phase: the member to train, its points and the validation points.
      epochs: passes after which to stop; None is `config.epochs`. The learning rates decay over
        `config.epochs` either way.
      probe: a function of the model that is called regularly; None is none.

    Raises:
      InputError: a checkpoint of another run, or one beyond the last step.
    """
    config = inputs.config
    prepared, programs = _set_up(inputs, phase, [] if probe is None else [probe.every])
    last_step, steps_per_epoch = prepared.total_steps, prepared.source.steps_per_epoch
    if epochs is not None:
        last_step = max(1, round(epochs * steps_per_epoch))

    run_info: dict[str, Any] = {
        "data_sha256": inputs.dataset.sha256,
        "seed": prepared.seed,
        "versions": versions(),
    }
    checkpoints = inputs.folder.checkpoints(config.keep_checkpoints, phase.name, run_info)
    state, manifest, damaged = checkpoints.load_newest_intact(
        abstract_state_on(prepared.mesh, prepared.model)
    )
    if manifest is None:
        progress = Counters()
        import_in_background(*_IMPORTED_EARLY)
        state = _compile_and_start(prepared, programs, inputs.warm_start)
        notes = [f"{error}; beginning again" for error in damaged]
        folder = inputs.folder
        began = folder.config.exists() if phase.is_first else has_phase(folder.log, phase.name)
        if began and not damaged:
            of_phase = "" if phase.is_first else f" of {phase.name}"
            notes.append(f"no checkpoint{of_phase} yet: training starts again")
        if phase.is_first:
            notes += start_notes(config, inputs.dataset, prepared.source, inputs.warm_start)
    else:
        progress = Counters(**manifest.progress)
        _check_same_run(checkpoints.path(progress.step), manifest.about, run_info)
        if progress.step > last_step:
            asked = config.epochs if epochs is None else epochs
            raise _too_few_epochs(progress.step, steps_per_epoch, last_step, asked)
        notes = [f"{error}; going on from the one before it" for error in damaged]
        notes += version_notes(manifest.about["versions"], run_info["versions"])
    return PhaseRun(
        inputs=inputs,
        phase=phase,
        prepared=prepared,
        programs=programs,
        checkpoints=checkpoints,
        folder=inputs.folder.path,
        last_step=last_step,
        progress=progress,
        state=state,
        notes=list(dict.fromkeys(notes)),
        probe=probe,
    )


def open_phase_in_memory(
    inputs: PhaseInputs,
    phase: Phase,
    state: TrainState | None,
    best: BestState,
    *,
    more_phases: bool = False,
) -> PhaseRun:
    """Prepares a new phase that writes nothing to disk.

    Args:
      inputs: of all phases.
      phase: the member to train, its points and the validation points.
      state: initial parameters, consumed; None initializes new ones.
      best: gets the state with the best validation score, or the last state without validation.
      more_phases: whether more phases follow, which share its compiled steps. The steps are then
        compiled for a long training.
    """
    prepared, programs = _set_up(inputs, phase, more_phases=more_phases)
    return PhaseRun(
        inputs=inputs,
        phase=phase,
        prepared=prepared,
        programs=programs,
        checkpoints=best,
        folder=None,
        last_step=prepared.total_steps,
        progress=Counters(),
        state=_compile_and_start(prepared, programs, None) if state is None else state,
    )


def _set_up(
    inputs: PhaseInputs, phase: Phase, periods: Sequence[int] = (), *, more_phases: bool = False
) -> tuple[Prepared, StepPrograms]:
    config, dataset = inputs.config, inputs.dataset
    with part("preparing batches"):
        prepared = prepare(
            config,
            dataset,
            inputs.weighting,
            phase.rows,
            member=phase.member,
            periods=periods,
        )
        prepared.source.check_device_draw()
    options = step_options if more_phases else prepared.step_options
    return prepared, StepPrograms(prepared.stages, prepared.mesh, options)


def _compile_and_start(
    prepared: Prepared, programs: StepPrograms, warm_start: WarmStart | None
) -> TrainState:
    """The parameters of a new phase; its steps compile in a thread meanwhile."""
    programs.begin(prepared.steps_per_dispatch)
    with part("initial parameters"):
        return starting_state(prepared, warm_start)


def _check_same_run(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Checks that a checkpoint was written by this run, and not copied from another one."""
    for name in ("data_sha256", "seed"):
        if before[name] != now[name]:
            found = f"a checkpoint of a run with {name} {before[name]}"
            raise InputError(str(path), found, f"{now[name]}, as in this run")


def _too_few_epochs(step: int, steps_per_epoch: int, last_step: int, asked: float) -> InputError:
    """The error where fewer epochs are asked for than are done."""
    done = step / steps_per_epoch
    found = f"{done:.4g} epoch{'s' * (done != 1)} done ({step:,} steps)"
    expected = f"no fewer than these ({asked:.4g} now, {last_step:,} steps)"
    return InputError("--epochs", found, expected)


@dataclasses.dataclass(eq=False, kw_only=True)
class PhaseRun:
    """A phase that is ready to train; `open_phase` and `open_phase_in_memory` make it.

    Attributes:
      inputs: of all phases.
      phase: the member to train, its points and the validation points.
      prepared: its model and batches.
      programs: its compiled steps.
      checkpoints: the store that saves states.
      folder: of the run, for the log; None writes no log.
      last_step: the step after which it ends.
      progress: the counters, which training updates.
      state: the parameters at `progress.step`; None while it trains, and if they are not needed.
      notes: lines for the user at its start.
      probe: a function of the model that is called regularly, or None.
    """

    inputs: PhaseInputs
    phase: Phase
    prepared: Prepared
    programs: StepPrograms
    checkpoints: Store
    folder: Path | None
    last_step: int
    progress: Counters
    state: TrainState | None
    notes: list[str] = dataclasses.field(default_factory=list)
    probe: Probe[Predictor] | None = None

    @property
    def mesh(self) -> Mesh | None:
        """The devices, or None for one."""
        return self.prepared.mesh

    @property
    def source(self) -> Source:
        """The batches."""
        return self.prepared.source

    @property
    def done(self) -> bool:
        """Whether this phase has no step left."""
        return self.progress.stopped or self.progress.step == self.last_step

    def run(
        self, stop: Callable[[], bool] | None = None, *, profile: bool = False
    ) -> Iterator[Event]:
        """Trains to the last step and writes the log.

        Args:
          stop: called after every dispatch; True ends the training early.
          profile: whether to write a profiler trace of a few dispatches to the run's folder.
        """
        config, source, phase = self.inputs.config, self.source, self.phase
        yield Started(
            phase.name,
            self.progress.step,
            self.last_step,
            source.steps_per_epoch,
            source.num_points,
            members_at_once(config, self.mesh),
        )
        if self.done:
            if config.members > 1:
                self.state = None  # frees memory for later members; it is read again at the end
            return
        assert self.state is not None
        events = run_steps(
            self.programs,
            self.state,
            self.progress,
            self._loop_plan,
            self.checkpoints,
            validation=self._validation,
            probe=self._probe,
            stop=stop,
        )
        self.state = None  # its buffers are donated to the first step
        trace_folder = None
        if profile and self.folder is not None and is_first_process():
            trace_folder = self.folder / "profile"
        with open_log(self.folder, phase.name, self.progress.step) as log:
            if self.progress.step:
                log.write_line(event="resumed", step=self.progress.step)
            notes = [Noted(self.progress.step, text) for text in self.notes]
            try:
                training = _with_trace(self._keep_last_state(events), trace_folder)
                for event in itertools.chain(notes, training):
                    log.write(event)
                    yield event
            except NonFiniteError as error:
                log.write_line(event="nonfinite", step=error.step, tensor=error.tensor,
                         points=error.points, culprits=error.culprits)  # fmt: skip
                raise

    @property
    def trained(self) -> TrainedPhase:
        """The outcome of the phase, once it is done."""
        progress, source = self.progress, self.source
        best_step = progress.best_step or progress.step
        is_best = best_step == progress.step
        predicts = is_best and self.inputs.config.members == 1 and self.mesh is None
        points = progress.step / source.steps_per_epoch * source.num_points
        state = self.state if predicts else None
        return TrainedPhase(progress, source.steps_per_epoch, points, self.mesh, state)

    def _keep_last_state(self, events: Generator[Event, None, TrainState]) -> Generator[Event]:
        """Passes events on, and keeps the last state if predictions may use it."""
        state = yield from events
        if self.inputs.config.members == 1 and self.folder is not None:
            self.state = state

    @property
    def _loop_plan(self) -> LoopPlan:
        prepared = self.prepared
        # A phase in memory cannot be resumed, so it saves only the best and the last state.
        saves = LAST_STEP if self.folder is None else prepared.saves
        return LoopPlan(
            self.last_step,
            prepared.steps_per_dispatch,
            saves,
            prepared.config.on_nonfinite,
            prepared.point_ids,
        )

    def _predictor(self, state: TrainState) -> Predictor:
        return Predictor(self.prepared.model, state, self.inputs.weighting, mesh=self.mesh)

    @functools.cached_property
    def _train_counts(self) -> TrainCounts:
        config, dataset = self.inputs.config, self.inputs.dataset
        frequency, num_points = label_frequency_together(dataset), dataset.train.num_points
        return TrainCounts(frequency, num_points, config.propensity_a, config.propensity_b)

    @property
    def _validation(self) -> Validation | None:
        config, held_out = self.inputs.config, self.phase.held_out
        if held_out is None:
            return None

        def metrics(state: TrainState) -> dict[str, float]:
            predictor = self._predictor(state)
            measures = Measures(auc=config.auc)
            return evaluate_points(predictor, held_out, self._train_counts, measures)["metrics"]

        every = config.evaluate_every or self.source.steps_per_epoch
        return Validation(metrics, every, config.monitor, config.patience)

    @property
    def _probe(self) -> Probe[TrainState] | None:
        probe = self.probe
        if probe is None:
            return None
        every = probe.every or self.source.steps_per_epoch
        return Probe(lambda state: probe.function(self._predictor(state)), every)


def _with_trace(events: Iterator[Event], folder: Path | None) -> Iterator[Event]:
    """Passes events on, and writes a profiler trace of a few of them to `folder`."""
    first, last = _PROFILED_EVENTS
    is_tracing = False
    try:
        for number, event in enumerate(events):
            if folder is not None and number == first:
                jax.profiler.start_trace(str(folder))
                is_tracing = True
            if is_tracing and number == last:
                jax.profiler.stop_trace()
                is_tracing = False
            yield event
    finally:
        if is_tracing:
            jax.profiler.stop_trace()
