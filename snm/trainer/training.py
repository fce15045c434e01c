"""A training run from data to result, top to bottom.

`training` yields the events of a run, `train` only returns the result. Both keep the run's folder,
and the same call again goes on from the last checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

from snm.config.resolve import resolve
from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.data.id_space import IdSpace, check_features
from snm.distributed.dataset import fit_weighting, load_together
from snm.distributed.processes import AgreedStop, barrier, has_several_processes, is_first_process
from snm.errors import InputError, StoppedError
from snm.machine.versions import surroundings
from snm.prediction.predictor import Predictor
from snm.runs.events import Event, Finished, Noted
from snm.runs.folder import RunFolder
from snm.runs.is_complete import result_is_current
from snm.runs.load import (
    assemble,
    checkpoints_intact,
    used_checkpoints,
    with_memory,
)
from snm.runs.log.held_out import scores_held_out
from snm.runs.log.progress_bar import in_notebook, with_bar
from snm.runs.members import phase_names
from snm.runs.mirror import place_of
from snm.runs.schema import MemoryRecord, RunFacts
from snm.stores.copies import local
from snm.system.locks import LOCK, locked
from snm.system.timing import part, restart, times
from snm.trainer.memory.notes import never_tried, noted
from snm.trainer.memory.plan import MemoryPlan
from snm.trainer.phase import Phase, PhaseRun, RunInputs, Trained, first_phase
from snm.trainer.prepare import members_at_once, names_not_tried
from snm.trainer.result import data_of_result, facts_of, test_metrics, training_figures
from snm.trainer.together import Stop, in_order
from snm.trainer.warm_start import WarmStart

__all__ = ["not_tried", "resolved_training", "train", "training"]


def train(
    data: str | Path | Dataset,
    config: Config,
    run_dir: str | Path,
    *,
    source: str | Path | None = None,
    warm_start: str | Path | None = None,
    same_ids: bool = False,
    profile: bool = False,
    probe: Callable[[Predictor], dict[str, Any]] | None = None,
    probe_every: int = 0,
    stop: Callable[[], bool] | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Trains a model and returns the content of result.json; `training` explains the arguments."""
    events = training(
        data,
        config,
        run_dir,
        source=source,
        warm_start=warm_start,
        same_ids=same_ids,
        profile=profile,
        probe=probe,
        probe_every=probe_every,
        stop=stop,
        progress=progress,
    )
    for event in events:
        if isinstance(event, Finished):
            return event.result
    raise AssertionError("training ends with Finished")


def training(
    data: str | Path | Dataset,
    config: Config,
    run_dir: str | Path,
    *,
    source: str | Path | None = None,
    warm_start: str | Path | None = None,
    same_ids: bool = False,
    profile: bool = False,
    probe: Callable[[Predictor], dict[str, Any]] | None = None,
    probe_every: int = 0,
    stop: Callable[[], bool] | None = None,
    progress: bool | None = None,
) -> Iterator[Event]:
    """Trains a model, and yields events.

    Args:
      data: a folder, its address in a store (`gs://`, `s3://`), `synthetic`, or a data set.
      config: the settings.
      run_dir: folder of the run, or its address in a store, where each checkpoint and the result
        appear as a whole; a run with the same settings and data goes on.
      source: path that a `Dataset` passed as `data` can be loaded from again.
      warm_start: folder of another run, whose parameters this one starts from; labels are mapped by
        their names.
      same_ids: labels without names mean the same in that run.
      profile: write a trace of a few dispatches to `run_dir/profile`.
      probe: a function of the model, called now and then. Its result becomes an event Probed and a
        line of the log; its time does not count as training.
      probe_every: steps between its calls; 0 is once an epoch.
      stop: asked after every dispatch, and while the test points are scored. After True the run
        saves a checkpoint and ends with StoppedError. `snm train` passes a function that tells
        whether a signal came; by default signals are not handled.
      progress: draw a live progress bar; None draws it in notebooks only.

    Yields:
      For each phase Started, then Stepped, Evaluated, Saved, Probed, Skipped and Noted as they
      happen; Finished at the end. Members that train side by side follow one after the other: the
      events of a later one wait for the end of those before. What the caller does between two
      events counts as time of training, so do little there.

    Raises:
      InputError: data, settings or folder that cannot be used; another process uses the folder.
      NonFiniteError: a loss was not finite.
      SavingError: a checkpoint could not be written; earlier ones are intact.
      StoreError: a store gave up; the folder on this machine is whole.
      StoppedError: `stop` returned True.
    """

    def run() -> Iterator[Event]:
        restart()
        if not isinstance(config, Config):
            expected = "a Config, such as snm.preset('default')"
            raise InputError("config", f"{config!r}"[:80], expected)
        with part("reading"):
            dataset = data if isinstance(data, Dataset) else load_together(data)
        yield from (Noted(0, note) for note in not_tried(config, dataset))
        with place_of(run_dir) as place:
            asked = RunFolder(place.folder).with_recorded_choices(config, dataset.sha256)
            yield from place.follow(
                resolved_training(
                    dataset,
                    resolve(asked, dataset),
                    place.folder,
                    source=data if source is None and not isinstance(data, Dataset) else source,
                    warm_start=warm_start,
                    same_ids=same_ids,
                    profile=profile,
                    probe=probe,
                    probe_every=probe_every,
                    stop=stop,
                    share=place.share,
                )
            )

    return with_bar(run()) if (in_notebook() if progress is None else progress) else run()


def not_tried(config: Config, dataset: Dataset) -> list[str]:
    """What the settings allow or ask for and is not tried here, and why, a line each."""
    notes = never_tried(config, dataset), names_not_tried(config, dataset)
    return [note for note in notes if note is not None]


def resolved_training(
    dataset: Dataset,
    config: ResolvedConfig,
    run_dir: str | Path,
    *,
    source: str | Path | None = None,
    warm_start: str | Path | None = None,
    same_ids: bool = False,
    profile: bool = False,
    probe: Callable[[Predictor], dict[str, Any]] | None = None,
    probe_every: int = 0,
    stop: Callable[[], bool] | None = None,
    share: Callable[[], None] | None = None,
) -> Generator[Event]:
    """`training` with settings that were resolved for this data set, and without a bar.

    With `share`, each process has a folder of its own; it copies that of process 0 to all.
    """
    folder = RunFolder(Path(run_dir), apart=share is not None)
    facts = facts_of(dataset, source, warm_start)
    config = folder.for_older_run(config)
    if has_several_processes() and stop is not None:
        stop = AgreedStop(stop)
    # What can be refused is refused before anything is written.
    folder.check(config, facts)
    _refuse_other_texts(folder, config, dataset)
    barrier("the folder was looked at")
    start = None
    if warm_start is not None:
        start = WarmStart(local(warm_start), IdSpace.of(dataset), same_ids)
    with contextlib.ExitStack() as holding:
        hold = functools.partial(
            holding.enter_context, locked(folder.path / LOCK, f"--run-dir {folder.path}")
        )
        there = folder.path.exists()
        if there and is_first_process():
            hold()
            folder.check(config, facts)  # again, now that no other process can write
        with part("weighting"):
            weighting = fit_weighting(config.weighting, dataset.train.features)
        run = _Run.of(RunInputs(folder, config, dataset, weighting, start), facts)
        begun = PhaseRun(run.inputs.of_member(1), run.first, probe=probe, probe_every=probe_every)
        changed = _other_epochs(folder, config) if there and not begun.done else None
        if not there and is_first_process():
            hold()
            if folder.config.exists():
                found = "a run that another process began just now"
                raise InputError(f"--run-dir {folder.path}", found, "the same command again")
        run.write()
        barrier("the folder is there")
        if begun.done and run.is_ended:
            yield Finished(folder.read_result())
            return
        if is_first_process():
            folder.reopen()
        run.write()
        barrier("the folder is open")
        for note in (changed, run.memory.note):
            if note is not None:
                yield Noted(0, note)

        at_once = members_at_once(config, begun.mesh)
        members = run.members(begun, profile)
        del begun  # member 1 has it
        done = yield from in_order(members, at_once, stop)
        del members  # with the points as they were weighted for training
        if share is not None:
            with part("reading the checkpoints"):
                share()
        last_step = done[-1].progress.step
        predictor, remembered = run.model_of(done[0])
        if remembered is not None:
            yield from noted(folder, remembered, last_step)
        ready = times().whole  # the model is on disk; what follows only tells how good it is
        result = {
            **test_metrics(predictor, config, dataset, run.facts, _stopping(stop, last_step)),
            **(scores_held_out(folder, config) if config.validation_fraction else {}),
            **({} if remembered is None else {"memory": remembered}),
            "data": data_of_result(dataset, run.facts),
            **training_figures(config, done, at_once),
            "time": {**times()._asdict(), "model": ready},
            **surroundings(),
        }
        if is_first_process():
            folder.finish(result, used_checkpoints(folder, config))
        barrier("the result is there")
        yield Finished(result)


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


@dataclasses.dataclass(frozen=True)
class _Run:
    """What the phases of a run are made from, and what is made of them.

    Attributes:
      inputs: of all phases.
      memory: where the run's memory comes from.
      facts: the content of `run.json`.
      whole: the first phase of any member but the first.
    """

    inputs: RunInputs
    memory: MemoryPlan
    facts: RunFacts
    whole: Phase

    @classmethod
    def of(cls, inputs: RunInputs, facts: RunFacts) -> _Run:
        """Looks where the memory comes from.

        Args:
          inputs: as the attribute.
          facts: what is known before.

        Raises:
          InputError: as `first_phase` and `MemoryPlan.of`.
        """
        whole = first_phase(inputs.config, inputs.dataset)
        memory = MemoryPlan.of(
            inputs.folder, inputs.config, inputs.dataset, inputs.warm_start, facts
        )
        return cls(inputs, memory, memory.told(facts), whole)

    @property
    def first(self) -> Phase:
        """The first phase of member 1: on fewer points, if a memory is chosen on the others."""
        if self.memory.kept is None or self.inputs.config.validation_fraction:
            return self.whole
        return dataclasses.replace(self.whole, rows=self.memory.kept)

    @property
    def is_ended(self) -> bool:
        """Whether the folder has a whole result, of what is asked for."""
        folder, config = self.inputs.folder, self.inputs.config
        current = result_is_current(folder, config) and self.memory.is_carried_out(folder)
        return current and checkpoints_intact(folder, config)

    def write(self) -> None:
        """Writes what a run begins with; of several processes, the first does."""
        if is_first_process():
            mine, dataset = self.inputs, self.inputs.dataset
            mine.folder.write(
                mine.config, self.facts, mine.weighting, dataset.label_names, dataset.vectorizer
            )

    def members(
        self, begun: PhaseRun, profile: bool
    ) -> list[Callable[[Stop], Generator[Event, None, Trained]]]:
        """What trains each member, and again on all points if asked.

        Args:
          begun: the first phase of member 1.
          profile: whether to trace member 1.
        """
        later = range(2, self.inputs.config.members + 1)
        return [
            functools.partial(self._member, 1, begun, profile),
            *(functools.partial(self._member, number, None, False) for number in later),
        ]

    def _member(
        self, number: int, begun: PhaseRun | None, profile: bool, stop: Stop
    ) -> Generator[Event, None, Trained]:
        train_name, refit_name = phase_names(number)
        inputs, run = self.inputs.of_member(number), begun
        if run is None:
            run = PhaseRun(inputs, dataclasses.replace(self.whole, name=train_name), number)
        yield from run.run(profile, stop)
        if inputs.config.refit:
            epochs = run.progress.best_step / run.source.steps_per_epoch
            run.state = None  # `begun` is held to the end
            run = PhaseRun(inputs, Phase(refit_name), number, epochs)
            yield from run.run(False, stop)
        return run.trained

    def model_of(self, first: Trained) -> tuple[Predictor, MemoryRecord | None]:
        """The model of all members, with its memory, and what `memory.json` says of that.

        Args:
          first: what is left of member 1. Its state is taken: the model may replace it.
        """
        folder, config, dataset = self.inputs.folder, self.inputs.config, self.inputs.dataset
        with part("reading the checkpoints"):
            trained, first.state = first.state, None
            predictor = assemble(
                folder, config, self.facts, self.inputs.weighting, dataset.label_names,
                finished=True, mesh=first.mesh, state=trained,
            )  # fmt: skip
            del trained
        remembered = self.memory.carry_out(folder, config, dataset, self.facts, predictor)
        if remembered is not None:
            predictor = with_memory(predictor, folder)
        return predictor, remembered


def _stopping(stop: Callable[[], bool] | None, step: int) -> Callable[[int], None]:
    """Lets `stop` end a long evaluation; the last checkpoint is saved by then."""

    def look(points: int) -> None:
        if stop is not None and stop():
            raise StoppedError(step)

    return look
