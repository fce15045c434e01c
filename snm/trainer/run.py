"""A run from its resolved settings to its result: `resolved_training`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.data.id_space import IdSpace, check_features
from snm.distributed.dataset import fit_weighting
from snm.distributed.processes import AgreedStop, barrier, has_several_processes, is_first_process
from snm.errors import InputError, StoppedError
from snm.machine.versions import environment_record
from snm.prediction.predictor import Predictor
from snm.runs.agreement import agree_on_settings
from snm.runs.events import Event, Finished, Noted
from snm.runs.folder import RunFolder
from snm.runs.is_complete import result_is_current
from snm.runs.load import StoredRun
from snm.runs.log.held_out import scores_held_out
from snm.runs.members import phase_names
from snm.runs.mirror import Place
from snm.runs.schema import MemoryRecord, RunOrigin
from snm.runs.settings import given_of_run
from snm.runs.typed_json import as_json
from snm.stores.copies import local
from snm.system.locks import LOCK, locked
from snm.system.timing import part, times
from snm.trainer.memory.notes import noted
from snm.trainer.memory.plan import MemoryPlan
from snm.trainer.phase import Phase, RunInputs, Trained, first_phase
from snm.trainer.phase_run import PhaseRun, open_phase
from snm.trainer.prepare import members_at_once
from snm.trainer.result import data_of_result, origin_of, test_metrics, training_figures
from snm.trainer.together import Stop, in_order
from snm.trainer.warm_start import WarmStart

__all__ = ["RunRequest", "resolved_training"]


@dataclasses.dataclass(frozen=True, eq=False)
class RunRequest:
    """What is asked of a run beside its settings; `snm.training` explains the attributes."""

    source: str | Path | None = None
    warm_start: str | Path | None = None
    same_ids: bool = False
    profile: bool = False
    probe: Callable[[Predictor], dict[str, Any]] | None = None
    probe_every: int = 0
    stop: Callable[[], bool] | None = None


def resolved_training(
    dataset: Dataset, config: ResolvedConfig, given: Config, place: Place, request: RunRequest
) -> Generator[Event]:
    """`snm.training` with settings that were resolved for this data set, and without a bar.

    Args:
      dataset: as loaded.
      config: as `snm.runs.settings.settings_of_run` has them.
      given: the same settings before.
      place: of the run; it follows the events.
      request: what else is asked for.
    """
    return place.follow(_events(dataset, config, given, place, request))


def _events(
    dataset: Dataset, config: ResolvedConfig, given: Config, place: Place, request: RunRequest
) -> Generator[Event]:
    """The events of a run, before its place looks at them.

    Where each process has a folder of its own, each copies that of process 0 before the end.
    """
    folder = RunFolder(place.folder, apart=place.share is not None)
    origin = origin_of(dataset, request.source, request.warm_start)
    stop = request.stop
    if has_several_processes() and stop is not None:
        stop = AgreedStop(stop)
    # What can be refused is refused before anything is written.
    folder.check(config, origin)
    origin = dataclasses.replace(origin, given=given_of_run(folder, given, config))
    _refuse_other_texts(folder, config, dataset)
    start = _warm_start(dataset, request)
    # No process passes before all have looked at the folder.
    agree_on_settings(config, None if start is None else start.run)
    with contextlib.ExitStack() as locks:
        lock = locked(folder.path / LOCK, f"--run-dir {folder.path}")
        # The lock is a file in the folder. A new folder gets it when nothing is left to refuse.
        is_new = not folder.path.exists()
        if not is_new and is_first_process():
            locks.enter_context(lock)
            folder.check(config, origin)  # again, now that no other process can write
        with part("weighting"):
            weighting = fit_weighting(config.weighting, dataset.train.features)
        run = _Run.of(RunInputs(config, dataset, weighting, folder, start), origin)
        opened = run.open_first_phase(request)
        changed = None if is_new or opened.done else _other_epochs(folder, config)
        if is_new and is_first_process():
            locks.enter_context(lock)
            _refuse_begun(folder)
        run.write()
        barrier("the folder is there")
        if opened.done and run.is_ended:
            yield Finished(folder.read_result())
            return
        run.reopen()
        for note in (changed, run.memory.note):
            if note is not None:
                yield Noted(0, note)

        at_once = members_at_once(config, opened.mesh)
        members = run.members(opened, request.profile)
        del opened  # member 1 has it
        done = yield from in_order(members, at_once, stop)
        del members  # with the points as they were weighted for training
        if place.share is not None:
            with part("reading the checkpoints"):
                place.share()
        yield from run.end(done, at_once, stop)


def _warm_start(dataset: Dataset, request: RunRequest) -> WarmStart | None:
    """The run that this one starts from, brought to this machine; None where it starts anew."""
    if request.warm_start is None:
        return None
    return WarmStart(local(request.warm_start), IdSpace.of(dataset), request.same_ids)


def _other_epochs(folder: RunFolder, config: ResolvedConfig) -> str | None:
    """Says that a run goes on to another end than it was begun with; None where it does not."""
    if not folder.config.exists() or (before := folder.settings().epochs) == config.epochs:
        return None
    keep = "" if folder.result.exists() else f" (--epochs {before} keeps these)"
    return f"epochs: {config.epochs} now, {before} before{keep}"


def _refuse_other_texts(folder: RunFolder, config: ResolvedConfig, dataset: Dataset) -> None:
    """Refuses texts of another vectoriser, which the hash of the data does not cover.

    Raises:
      InputError: the run began with another one.
    """
    if config.label_text == "on" and folder.has(folder.vectorizer):
        mine = IdSpace.of(dataset)
        begun = dataclasses.replace(mine, name=str(folder.path), vectorizer=folder.vectorizer)
        check_features(mine, begun)


def _refuse_begun(folder: RunFolder) -> None:
    """Refuses a run in a folder that was not there before it was locked."""
    if folder.config.exists():
        found = "a run that another process began just now"
        raise InputError(f"--run-dir {folder.path}", found, "the same command again")


@dataclasses.dataclass(frozen=True)
class _Run:
    """What the phases of a run are made from, and what is made of them.

    Attributes:
      inputs: of all phases.
      memory: where the run's memory comes from.
      origin: the content of `run.json`.
      train_phase: the first phase of a member, whatever chooses the memory.
    """

    inputs: RunInputs
    memory: MemoryPlan
    origin: RunOrigin
    train_phase: Phase

    @classmethod
    def of(cls, inputs: RunInputs, origin: RunOrigin) -> _Run:
        """Looks where the memory comes from.

        Args:
          inputs: as the attribute.
          origin: what is known before.

        Raises:
          InputError: as `first_phase` and `MemoryPlan.of`.
        """
        train_phase = first_phase(inputs.config, inputs.dataset)
        memory = MemoryPlan.of(
            inputs.folder, inputs.config, inputs.dataset, inputs.warm_start, origin
        )
        return cls(inputs, memory, memory.told(origin), train_phase)

    def first_phase_of(self, member: int) -> Phase:
        """The first phase of a member; member 1 leaves out the points that choose a memory."""
        return self.train_phase.of_member(member, self.memory.kept)

    @property
    def is_ended(self) -> bool:
        """Whether the folder has a whole result, of what is asked for."""
        folder, config = self.inputs.folder, self.inputs.config
        current = result_is_current(folder, config) and self.memory.is_carried_out(folder)
        return current and self.stored.is_intact()

    @property
    def stored(self) -> StoredRun:
        """The run when all members are trained."""
        return StoredRun(self.inputs.folder, self.inputs.config, self.origin, all_trained=True)

    def open_first_phase(self, request: RunRequest) -> PhaseRun:
        """Opens the first phase of member 1, which may be done already."""
        return open_phase(
            self.inputs.of_member(1),
            self.first_phase_of(1),
            probe=request.probe,
            probe_every=request.probe_every,
        )

    def write(self) -> None:
        """Writes what a run begins with; of several processes, the first does."""
        if is_first_process():
            mine, dataset = self.inputs, self.inputs.dataset
            mine.folder.write(
                mine.config, self.origin, mine.weighting, dataset.label_names, dataset.vectorizer
            )

    def reopen(self) -> None:
        """Says in the folder that there is no result yet; all processes wait until it does."""
        if is_first_process():
            self.inputs.folder.reopen()
        self.write()
        barrier("the folder is open")

    def members(
        self, opened: PhaseRun, profile: bool
    ) -> list[Callable[[Stop], Generator[Event, None, Trained]]]:
        """What trains each member, and again on all points if asked.

        Args:
          opened: the first phase of member 1.
          profile: whether to trace member 1.
        """
        later = range(2, self.inputs.config.members + 1)
        return [
            functools.partial(self._member, 1, opened, profile),
            *(functools.partial(self._member, number, None, False) for number in later),
        ]

    def _member(
        self, number: int, opened: PhaseRun | None, profile: bool, stop: Stop
    ) -> Generator[Event, None, Trained]:
        inputs = self.inputs.of_member(number)
        run = opened or open_phase(inputs, self.first_phase_of(number), number)
        yield from run.run(stop, profile=profile)
        if inputs.config.refit:
            epochs = run.progress.best_step / run.source.steps_per_epoch
            run.state = None  # `opened` is held to the end
            _, refit_name = phase_names(number)
            run = open_phase(inputs, Phase(refit_name), number, epochs)
            yield from run.run(stop)
        return run.trained

    def model_of(self, first: Trained) -> tuple[Predictor, MemoryRecord | None]:
        """The model of all members, with its memory, and what `memory.json` says of that.

        Args:
          first: what is left of member 1. Its state is taken: the model may replace it.
        """
        stored, dataset = self.stored, self.inputs.dataset
        with part("reading the checkpoints"):
            trained, first.state = first.state, None
            predictor = stored.predictor(
                self.inputs.weighting, dataset.label_names, mesh=first.mesh, state=trained
            )
            del trained
        remembered = self.memory.carry_out(stored, dataset, predictor)
        if remembered is not None:
            predictor = stored.with_memory(predictor)
        return predictor, remembered

    def end(self, done: list[Trained], at_once: int, stop: Stop | None) -> Generator[Event]:
        """Makes and measures the model, and writes the result.

        Args:
          done: what is left of each member.
          at_once: how many members trained side by side.
          stop: as in `RunRequest`, agreed between processes.
        """
        folder, last_step = self.inputs.folder, done[-1].progress.step
        predictor, remembered = self.model_of(done[0])
        if remembered is not None:
            yield from noted(folder, remembered, last_step)
        ready = times().whole  # the model is on disk; what follows only tells how good it is
        config, dataset = self.inputs.config, self.inputs.dataset
        result = {
            **test_metrics(predictor, config, dataset, self.origin, _raising(stop, last_step)),
            **(scores_held_out(folder, config) if config.validation_fraction else {}),
            **({} if remembered is None else {"memory": as_json(remembered)}),
            "data": data_of_result(dataset, self.origin),
            **training_figures(config, done, at_once),
            "time": {**times()._asdict(), "model": ready},
            **environment_record(),
        }
        if is_first_process():
            folder.finish(result, self.stored.used_checkpoints())
        barrier("the result is there")
        yield Finished(result)


def _raising(stop: Stop | None, step: int) -> Callable[[int], None]:
    """What ends an evaluation where `stop` says so; the last checkpoint is saved by then."""

    def on_progress(points: int) -> None:
        if stop is not None and stop():
            raise StoppedError(step)

    return on_progress
