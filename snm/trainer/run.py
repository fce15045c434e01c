"""A run from its settings to its result. `snm train` looks at a `PlannedRun` before it trains."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Generator

from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.data.id_space import IdSpace, check_features
from snm.distributed.dataset import fit_weighting
from snm.distributed.processes import AgreedStop, barrier, has_several_processes, is_first_process
from snm.errors import InputError, StoppedError
from snm.machine.versions import environment_record
from snm.prediction.predictor import Predictor
from snm.runs.events import Event, Finished, Noted
from snm.runs.folder import RunFolder
from snm.runs.log.validation import validation_metrics
from snm.runs.mirror import RunLocation
from snm.runs.schema import MemoryRecord, RunOrigin
from snm.runs.stored_run import StoredRun
from snm.runs.typed_json import as_json
from snm.stores.copies import local_copy
from snm.system.files.locks import LOCK, locked
from snm.system.timing import part, times
from snm.trainer.memory.notes import log_memory_notes
from snm.trainer.memory.plan import MemoryPlan
from snm.trainer.parallel_members import Stop, run_members
from snm.trainer.phase import Phase, RunInputs, TrainedPhase, first_phase
from snm.trainer.phase_run import PhaseRun, open_phase
from snm.trainer.request import RunRequest
from snm.trainer.result import data_summary, run_origin, test_metrics, training_summary
from snm.trainer.start.prepare import members_at_once
from snm.trainer.start.resumed_settings import given_settings, resolve_for_run
from snm.trainer.start.same_command import check_same_settings
from snm.trainer.start.start_notes import notes_on_settings
from snm.trainer.start.warm_start import WarmStart

__all__ = ["PlannedRun"]


@dataclasses.dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run whose settings are resolved for its data; nothing is written yet.

    Attributes:
      dataset: as loaded.
      given: the settings as the user gave them.
      config: the same, resolved for the data; a resumed run keeps the choices of its start.
      location: where the run is kept.
    """

    dataset: Dataset
    given: Config
    config: ResolvedConfig
    location: RunLocation

    @classmethod
    def of(cls, dataset: Dataset, config: Config, location: RunLocation) -> PlannedRun:
        """Resolves the settings.

        Args:
          dataset: as loaded.
          config: the settings as the user gave them.
          location: where the run is kept; it follows the events.

        Raises:
          InputError: settings that do not suit the data set or the run, or a damaged run.
        """
        resolved = resolve_for_run(RunFolder(location.folder), config, dataset)
        return cls(dataset, config, resolved, location)

    def events(self, request: RunRequest) -> Generator[Event]:
        """Trains, and yields the events; see `training`.

        Args:
          request: the arguments beside the settings.
        """
        yield from (Noted(0, note) for note in notes_on_settings(self.given, self.dataset))
        yield from self.location.follow(_run_events(self, request))


def _run_events(planned: PlannedRun, request: RunRequest) -> Generator[Event]:
    """The events of a run: train all members, load and measure the model, write the result.

    If each process has its own folder, each copies the folder of process 0 before the end.
    """
    dataset, config, location = planned.dataset, planned.config, planned.location
    folder = RunFolder(location.folder, apart=location.is_apart)
    origin = run_origin(dataset, request.source, request.warm_start)
    stop = request.stop
    if has_several_processes() and stop is not None:
        stop = AgreedStop(stop)
    # All checks come before the first write.
    folder.check(config, origin)
    origin = dataclasses.replace(origin, given=given_settings(folder, planned.given, config))
    _check_vectorizer(folder, config, dataset)
    warm_start = _warm_start(dataset, request)
    # No process passes before all have looked at the folder.
    check_same_settings(config, None if warm_start is None else warm_start.run)
    with contextlib.ExitStack() as locks:
        lock = locked(folder.path / LOCK, f"--run-dir {folder.path}")
        # The lock is a file in the folder, so a new folder is locked after the last check.
        is_new = not folder.path.exists()
        if not is_new and is_first_process():
            locks.enter_context(lock)
            folder.check(config, origin)  # again, now that no other process can write
        with part("weighting"):
            weighting = fit_weighting(config.weighting, dataset.train.features)
        run = _Run.plan(RunInputs(config, dataset, weighting, folder, warm_start), origin)
        first_phase_run = run.open_first_phase(request)
        epochs_note = None if is_new or first_phase_run.done else _changed_epochs(folder, config)
        if is_new and is_first_process():
            locks.enter_context(lock)
            _check_not_started(folder)
        run.write_inputs()
        barrier("the folder is there")
        if first_phase_run.done and run.is_complete:
            yield Finished(folder.read_result())
            return
        run.mark_unfinished()
        epochs_notes = () if epochs_note is None else (epochs_note,)
        yield from (Noted(0, note) for note in epochs_notes + run.memory.notes)

        at_once = members_at_once(config, first_phase_run.mesh)
        members = run.members(first_phase_run, request.profile)
        del first_phase_run  # only member 1 holds it now
        trained = yield from run_members(members, at_once, stop)
        del members  # frees the weighted training points
        if location.is_apart:
            with part("reading the checkpoints"):
                location.copy_to_all()
        yield from run.finish(trained, at_once, stop)


def _warm_start(dataset: Dataset, request: RunRequest) -> WarmStart | None:
    """The run that this one starts from, copied to this machine; None without a warm start."""
    if request.warm_start is None:
        return None
    return WarmStart(local_copy(request.warm_start), IdSpace.of(dataset), request.same_ids)


def _changed_epochs(folder: RunFolder, config: ResolvedConfig) -> str | None:
    """A note if a resumed run trains for another number of epochs than before; else None."""
    if not folder.config.exists():
        return None
    before = folder.settings().epochs
    if before == config.epochs:
        return None
    keep = "" if folder.result.exists() else f" (--epochs {before} keeps these)"
    return f"epochs: {config.epochs} now, {before} before{keep}"


def _check_vectorizer(folder: RunFolder, config: ResolvedConfig, dataset: Dataset) -> None:
    """Checks that label names are still read by the vectorizer that the run started with.

    The hash of the data does not cover it.

    Raises:
      InputError: the run started with another vectorizer.
    """
    if config.label_text == "on" and folder.has(folder.vectorizer):
        ids = IdSpace.of(dataset)
        of_run = dataclasses.replace(ids, name=str(folder.path), vectorizer=folder.vectorizer)
        check_features(ids, of_run)


def _check_not_started(folder: RunFolder) -> None:
    """Checks that no other process started a run in the folder before it was locked."""
    if folder.config.exists():
        found = "a run that another process began just now"
        raise InputError(f"--run-dir {folder.path}", found, "the same command again")


@dataclasses.dataclass(frozen=True)
class _Run:
    """A run: its inputs, its memory plan, and the steps from the first phase to the result.

    Attributes:
      inputs: of all phases.
      memory: where the run's memory comes from.
      origin: the content of `run.json`.
      train_phase: the first phase of a member, before points are left out to choose the memory.
    """

    inputs: RunInputs
    memory: MemoryPlan
    origin: RunOrigin
    train_phase: Phase

    @classmethod
    def plan(cls, inputs: RunInputs, origin: RunOrigin) -> _Run:
        """Plans the first phase and the memory.

        Args:
          inputs: of all phases.
          origin: the content of `run.json`, without an inherited memory.

        Raises:
          InputError: as `first_phase` and `MemoryPlan.of`.
        """
        train_phase = first_phase(inputs.config, inputs.dataset)
        memory = MemoryPlan.of(
            inputs.folder, inputs.config, inputs.dataset, inputs.warm_start, origin
        )
        if inputs.warm_start is not None:  # a run that is resumed needs no other run
            origin = dataclasses.replace(origin, inherited=memory.inherited)
        return cls(inputs, memory, origin, train_phase)

    def make_first_phase(self, member: int) -> Phase:
        """The first phase of a member; member 1 leaves out the points that choose a memory."""
        split = self.memory.split
        return self.train_phase.of_member(member, None if split is None else split.kept)

    @property
    def is_complete(self) -> bool:
        """Whether the folder has an intact model and a result for the current settings."""
        stored = self.stored
        return (
            _result_is_current(stored.folder, stored.config)
            and self.memory.is_carried_out(stored)
            and stored.checkpoints.are_intact()
        )

    @property
    def stored(self) -> StoredRun:
        """The run in its folder, with all members trained."""
        return StoredRun(self.inputs.folder, self.inputs.config, self.origin, all_trained=True)

    def open_first_phase(self, request: RunRequest) -> PhaseRun:
        """Opens the first phase of member 1, which may be done already."""
        return open_phase(self.inputs, self.make_first_phase(1), probe=request.probe)

    def write_inputs(self) -> None:
        """Writes the settings, the origin and the data's files to the folder, in process 0."""
        if is_first_process():
            inputs, dataset = self.inputs, self.inputs.dataset
            inputs.folder.write(
                inputs.config,
                self.origin,
                inputs.weighting,
                dataset.label_names,
                dataset.vectorizer,
            )

    def mark_unfinished(self) -> None:
        """Marks the run in the folder as unfinished; all processes wait for it."""
        if is_first_process():
            self.inputs.folder.mark_unfinished()
        barrier("the folder is open")

    def members(
        self, first_phase_run: PhaseRun, profile: bool
    ) -> list[Callable[[Stop], Generator[Event, None, TrainedPhase]]]:
        """Functions that train one member each, with its refit if the settings ask for one.

        Args:
          first_phase_run: the first phase of member 1.
          profile: whether to write a profiler trace of member 1.
        """
        others = range(2, self.inputs.config.members + 1)
        return [
            functools.partial(self._train_member, 1, first_phase_run, profile),
            *(functools.partial(self._train_member, member, None, False) for member in others),
        ]

    def _train_member(
        self, member: int, first_phase_run: PhaseRun | None, profile: bool, stop: Stop
    ) -> Generator[Event, None, TrainedPhase]:
        phase_run = first_phase_run or open_phase(self.inputs, self.make_first_phase(member))
        yield from phase_run.run(stop, profile=profile)
        if self.inputs.config.refit:
            best_epochs = phase_run.progress.best_step / phase_run.source.steps_per_epoch
            phase_run.state = None  # frees it: `first_phase_run` is alive until the run ends
            phase_run = open_phase(self.inputs, Phase(member, refit=True), best_epochs)
            yield from phase_run.run(stop)
        return phase_run.trained

    def load_model(self, first: TrainedPhase) -> tuple[Predictor, MemoryRecord | None]:
        """Joins the members into one model, and adds a memory if one is planned.

        Args:
          first: the trained phase of member 1. Its state is moved out, so that it can be freed.

        Returns:
          The predictor, and the content of `memory.json` or None.
        """
        stored, dataset = self.stored, self.inputs.dataset
        with part("reading the checkpoints"):
            state, first.state = first.state, None
            predictor = stored.predictor(
                self.inputs.weighting, dataset.label_names, mesh=first.mesh, state=state
            )
            del state
        memory_record = self.memory.carry_out(stored, dataset, predictor)
        if memory_record is not None:
            predictor = stored.with_memory(predictor)
        return predictor, memory_record

    def finish(
        self, trained: list[TrainedPhase], at_once: int, stop: Stop | None
    ) -> Generator[Event]:
        """Loads the model, evaluates it on the test points, and writes the result.

        Args:
          trained: the last phase of each member.
          at_once: the number of members that trained side by side.
          stop: as in `RunRequest`, agreed between processes.
        """
        folder, last_step = self.inputs.folder, trained[-1].progress.step
        predictor, memory_record = self.load_model(trained[0])
        if memory_record is not None:
            yield from log_memory_notes(folder, memory_record, last_step)
        model_seconds = times().whole  # the model is on disk; what follows only measures it
        config, dataset = self.inputs.config, self.inputs.dataset
        result = {
            **test_metrics(predictor, config, dataset, self.origin, _stop_check(stop, last_step)),
            **(validation_metrics(folder, config) if config.validation_fraction else {}),
            **({} if memory_record is None else {"memory": as_json(memory_record)}),
            "data": data_summary(dataset, self.origin),
            **training_summary(config, trained, at_once),
            "time": {**times()._asdict(), "model": model_seconds},
            **environment_record(),
        }
        if is_first_process():
            folder.finish(result, self.stored.checkpoints.seals())
        barrier("the result is there")
        yield Finished(result)


def _result_is_current(folder: RunFolder, config: Config) -> bool:
    """Whether there is a result for the current number of epochs, with the AUC if it is on."""
    try:
        if not folder.finished():
            return False
        result = folder.read_result()
    except InputError:  # damaged: it is made again
        return False
    if config.auc and result["metrics"].get("points") and "AUC" not in result["metrics"]:
        return False
    return result["epochs_asked"] == config.epochs


def _stop_check(stop: Stop | None, step: int) -> Callable[[int], None]:
    """A progress callback that raises StoppedError once `stop` returns True.

    The last checkpoint is saved by then.
    """

    def on_progress(points: int) -> None:
        if stop is not None and stop():
            raise StoppedError(step)

    return on_progress
