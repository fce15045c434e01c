"""The training of one phase: of a run, from its newest checkpoint on, or in memory."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from scipy.sparse import csr_matrix

from snm.batches.sources.source import Source
from snm.checkpoints.in_memory import BestState
from snm.checkpoints.writer import Store
from snm.data.dataset import describe_weights
from snm.data.statistics import dominant_feature
from snm.distributed.dataset import label_frequency_together
from snm.distributed.processes import is_first_process
from snm.errors import InputError, counted
from snm.evaluation.evaluate import Measures, TrainCounts, evaluate_points
from snm.machine.compiler import step_options
from snm.machine.versions import versions
from snm.model.model import TrainState
from snm.model.placement import abstract_state_on
from snm.prediction.predictor import Predictor
from snm.runs.events import Event, NonFiniteError, Noted, Progress, Started
from snm.runs.log.event_log import open_log
from snm.runs.members import phase_names
from snm.system.imports import import_in_background
from snm.system.timing import part
from snm.trainer.loop import Course, Probe, Validation, Watch, run_steps
from snm.trainer.phase import Phase, PhaseInputs, RunInputs, Trained
from snm.trainer.prepare import Prepared, members_at_once, prepare, trained_beside
from snm.trainer.programs import StepPrograms
from snm.trainer.warm_start import WarmStart, initial_state

__all__ = ["PhaseRun", "open_phase", "phase_in_memory"]

_LATER = ("snm.runs.log.curves", "orbax.checkpoint.v1", "scipy.optimize")
"""Modules that a run needs at its first event, its first checkpoint and its end."""
_PROFILED = (1, 5)  # events between which the profiler looks: the first step is compiled


def open_phase(
    inputs: RunInputs,
    phase: Phase,
    member: int = 1,
    epochs: float | None = None,
    *,
    probe: Callable[[Predictor], dict[str, Any]] | None = None,
    probe_every: int = 0,
) -> PhaseRun:
    """Prepares a phase, and reads its newest checkpoint; where there is none, the phase begins.

    Args:
      inputs: of the member.
      phase: the points to train on, and those to watch.
      member: counted from 1.
      epochs: passes after which to stop; None is `config.epochs`. The rates fall over
        `config.epochs` either way.
      probe: looks at the model now and then.
      probe_every: steps between its looks; 0 is once an epoch.

    Raises:
      InputError: a checkpoint of another run, or one beyond the last step.
    """
    config = inputs.config
    prepared, programs = _set_up(inputs, phase, 0 if probe is None else probe_every)
    last_step, steps_per_epoch = prepared.total_steps, prepared.source.steps_per_epoch
    if epochs is not None:
        last_step = max(1, round(epochs * steps_per_epoch))

    about: dict[str, Any] = {
        "data_sha256": inputs.dataset.sha256,
        "seed": config.seed,
        "versions": versions(),
    }
    checkpoints = inputs.folder.checkpoints(config.keep_checkpoints, phase.name, about)
    state, note, damaged = checkpoints.load_newest_intact(
        abstract_state_on(prepared.mesh, prepared.model)
    )
    if note is None:
        progress = Progress()
        import_in_background(*_LATER)
        state = _begin(prepared, programs, inputs.warm_start, member)
        notes = [f"{error}; beginning again" for error in damaged]
        begins_the_run = phase.name == phase_names(1)[0]
        notes += _about_the_run(inputs, prepared.source) if begins_the_run else []
    else:
        progress = Progress(**note.progress)
        _refuse_another(checkpoints.path(progress.step), note.about, about)
        if progress.step > last_step:
            now = config.epochs if epochs is None else epochs
            raise _fewer(progress.step, steps_per_epoch, last_step, now)
        notes = [f"{error}; going on from the one before it" for error in damaged]
        notes += _other_versions(note.about["versions"], about["versions"])
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
        probe_every=probe_every,
    )


def phase_in_memory(
    inputs: PhaseInputs,
    phase: Phase,
    state: TrainState | None,
    best: BestState,
    *,
    in_parts: bool = False,
) -> PhaseRun:
    """Prepares a phase that begins, and writes nothing to disk.

    Args:
      inputs: of the member.
      phase: the points to train on, and those to watch.
      state: parameters to go on from, consumed; None starts anew.
      best: afterwards has the state with the best score, or the last where none is scored.
      in_parts: whether more phases follow. They share its programs, which are then compiled as
        those of a long training.
    """
    prepared, programs = _set_up(inputs, phase, in_parts=in_parts)
    return PhaseRun(
        inputs=inputs,
        phase=phase,
        prepared=prepared,
        programs=programs,
        checkpoints=best,
        folder=None,
        last_step=prepared.total_steps,
        progress=Progress(),
        state=_begin(prepared, programs) if state is None else state,
    )


def _set_up(
    inputs: PhaseInputs, phase: Phase, probe_every: int = 0, *, in_parts: bool = False
) -> tuple[Prepared, StepPrograms]:
    config, dataset = inputs.config, inputs.dataset
    names = trained_beside(config, dataset)
    with part("preparing batches"):
        prepared = prepare(
            config, dataset.train, inputs.weighting, phase.rows, names, probe_every=probe_every
        )
    options = step_options if in_parts else prepared.step_options
    return prepared, StepPrograms(
        prepared.model, prepared.source, prepared.stages, prepared.mesh, options
    )


def _begin(
    prepared: Prepared, programs: StepPrograms, warm_start: WarmStart | None = None, member: int = 1
) -> TrainState:
    """The parameters of a new phase, while its programs compile."""
    programs.begin(prepared.steps_per_dispatch)
    with part("initial parameters"):
        return initial_state(prepared, warm_start, member)


def _refuse_another(path: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuses a folder of checkpoints that was put together from two runs."""
    for name in ("data_sha256", "seed"):
        if before[name] != now[name]:
            found = f"a checkpoint of a run with {name} {before[name]}"
            raise InputError(str(path), found, f"{now[name]}, as in this run")


def _fewer(step: int, steps_per_epoch: int, last_step: int, now: float) -> InputError:
    """The refusal of fewer epochs than are done."""
    done = step / steps_per_epoch
    found = f"{done:.4g} epoch{'s' * (done != 1)} done ({step:,} steps)"
    expected = f"no fewer than these ({now:.4g} now, {last_step:,} steps)"
    return InputError("--epochs", found, expected)


def _other_versions(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Says which packages a run goes on with in another version than it began with."""
    changed = sorted(name for name, version in now.items() if before.get(name) != version)
    if not changed:
        return []
    earlier = ", ".join(f"{name} {before.get(name)}" for name in changed)
    return [f"this run began with {earlier}: its bits may differ from here on"]


def _about_the_run(inputs: RunInputs, source: Source) -> list[str]:
    """What a new run says of its data, its negatives and of where it starts, a line each."""
    config, dataset, warm_start = inputs.config, inputs.dataset, inputs.warm_start
    notes = []
    if config.seen == "drop":
        note = "labels that are among a point's own features are never its answers"
        notes.append(f"{note} (--seen keep allows them)")
    if (weights := dataset.train.weights) is not None:
        notes.append(f"weights of points: {describe_weights(weights)}")
    if (weights := dataset.train.label_weights) is not None:
        notes.append(f"weights of labels: {weights.min():.3g} to {weights.max():.3g}")
    if (names := trained_beside(config, dataset)) is not None:
        note = f"{counted(names.num_points, 'label name')} are training points too"
        notes.append(f"{note} (--label-text off leaves them out)")
    if config.weighting == "l2" and (hidden := dominant_feature(dataset.train.features)):
        notes.append(hidden)
    if _ignores_log_weights(source, dataset.train.labels):
        note = f"{config.loss} ignores the log weights of the {config.sampler} sampler"
        notes.append(f"{note}: labels drawn more often count more (softmax corrects for it)")
    if warm_start is not None and warm_start.note:
        notes.append(warm_start.note)
    return notes


def _ignores_log_weights(source: Source, labels: csr_matrix) -> bool:
    """Whether samples have a correction that the loss does not read; told from a draw."""
    sampler = source.sampler
    if sampler is None or source.spec.head_loss.uses_log_weights:
        return False
    positives = None
    if sampler.needs_batch_positives:
        positives = labels.indices[: source.batch_size].astype(np.int32)
    return getattr(sampler.on_host(0, positives), "log_weights", None) is not None


@dataclasses.dataclass(eq=False, kw_only=True)
class PhaseRun:
    """A phase that is ready to train; `open_phase` and `phase_in_memory` make it.

    Attributes:
      inputs: of the member.
      phase: the points that it trains on, and those that it watches.
      prepared: its model and batches.
      programs: its steps, which may be compiling.
      checkpoints: where it saves.
      folder: of the run, where the log is; None writes none.
      last_step: the one after which it ends.
      progress: the counters, which training updates.
      state: the parameters at `progress.step`; None while it trains, and where they are not needed.
      notes: what is said at its start, a line each.
      probe: looks at the model now and then, or None.
      probe_every: steps between its looks; 0 is once an epoch.
    """

    inputs: PhaseInputs
    phase: Phase
    prepared: Prepared
    programs: StepPrograms
    checkpoints: Store
    folder: Path | None
    last_step: int
    progress: Progress
    state: TrainState | None
    notes: list[str] = dataclasses.field(default_factory=list)
    probe: Callable[[Predictor], dict[str, Any]] | None = None
    probe_every: int = 0

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
          stop: asked after every dispatch whether to end earlier.
          profile: whether to write a trace of a few dispatches to the run's folder.
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
                self.state = None  # read again when all are trained; later members need the room
            return
        assert self.state is not None
        watch = Watch(self._validation, self._probe, stop)
        events = run_steps(
            self.programs, self.state, self.progress, self._course, self.checkpoints, watch
        )
        self.state = None  # its buffers are donated to the first step
        trace = None
        if profile and self.folder is not None and is_first_process():
            trace = self.folder / "profile"
        with open_log(self.folder, phase.name, self.progress.step) as log:
            notes = [Noted(self.progress.step, text) for text in self.notes]
            try:
                for event in itertools.chain(notes, _traced(self._kept(events), trace)):
                    log.write(event)
                    yield event
            except NonFiniteError as error:
                log.line(event="nonfinite", step=error.step, tensor=error.tensor,
                         points=error.points, culprits=error.culprits)  # fmt: skip
                raise

    @property
    def trained(self) -> Trained:
        """What is left to use of it at its end."""
        progress, source = self.progress, self.source
        best = progress.best_step or progress.step
        used = self.inputs.config.members == 1 and self.mesh is None and best == progress.step
        points = progress.step / source.steps_per_epoch * source.num_points
        state = self.state if used else None
        return Trained(progress, source.steps_per_epoch, points, self.mesh, state)

    def _kept(self, events: Generator[Event, None, TrainState]) -> Generator[Event]:
        """Passes events on, and keeps the state at their end, where it may be used."""
        state = yield from events
        if self.inputs.config.members == 1 and self.folder is not None:
            self.state = state

    @property
    def _course(self) -> Course:
        prepared = self.prepared
        return Course(
            self.last_step,
            prepared.steps_per_dispatch,
            # What is in memory is lost with the process: nothing goes on from there.
            0 if self.folder is None else prepared.checkpoint_every,
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
    def _probe(self) -> Probe | None:
        look = self.probe
        if look is None:
            return None
        every = self.probe_every or self.source.steps_per_epoch
        return Probe(lambda state: look(self._predictor(state)), every)


def _traced(events: Iterator[Event], folder: Path | None) -> Iterator[Event]:
    """Passes events on, and writes a profiler trace of a few of them to `folder`."""
    first, last = _PROFILED
    running = False
    try:
        for number, event in enumerate(events):
            if folder is not None and number == first:
                jax.profiler.start_trace(str(folder))
                running = True
            if running and number == last:
                jax.profiler.stop_trace()
                running = False
            yield event
    finally:
        if running:
            jax.profiler.stop_trace()
