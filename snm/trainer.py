"""A training run from data to result, top to bottom.

`training` yields what happens, `train` only returns the result. Both keep the run's folder; the
same call again goes on where the last one stopped.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from snm.batches import Source, make_source
from snm.config import Config
from snm.data.dataset import Dataset, Points
from snm.data.dataset import load as load_dataset
from snm.data.stats import duplicate_test_rows
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation import evaluate_points, metric_names
from snm.logs import EventLog
from snm.model import Model, TrainState, abstract_state, init_state
from snm.prediction import Predictor
from snm.runs import RunFolder, load, make_model, read_json, resolve, surroundings, write_json
from snm.training import Event, Progress, run_steps

__all__ = ["Finished", "Started", "evaluate", "train", "training"]

_CPU_STEPS = 4  # a dispatch; more gained nothing on a CPU
_ACCELERATOR_STEPS = 32  # a step takes less time there than a word with the host
_PROFILED = (1, 5)  # events between which the profiler looks: the first step is compiled
_RESIDENT_SHARE = 0.3  # of the device's memory that the training set may take


@dataclasses.dataclass(frozen=True)
class Started:
    """A phase begins: `train` or `refit`, where it stands, where it ends, points a step."""

    phase: str
    step: int
    last_step: int
    steps_per_epoch: int
    num_points: int


@dataclasses.dataclass(frozen=True)
class Finished:
    """The run is over: the content of result.json."""

    result: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class _Phase:
    """What a phase trains on, and what it watches."""

    name: str
    points: Points
    held_out: Points | None


def train(
    data: str | Path | Dataset, config: Config, run_dir: str | Path, **options: Any
) -> dict[str, Any]:
    """Trains a model and returns the content of result.json; see `training`."""
    for event in training(data, config, run_dir, **options):
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
    profile: bool = False,
) -> Iterator[Event | Started | Finished]:
    """Trains a model, and yields what happens.

    Args:
      data: a folder, `synthetic`, or a data set.
      config: the settings.
      run_dir: folder of the run; one with the same settings and data goes on.
      source: where a data set that is passed as such can be loaded from again.
      warm_start: another run, whose parameters this one starts from.
      profile: write a trace of a few dispatches to `run_dir/profile`.

    Yields:
      Started, then Stepped, Evaluated and Saved, for each phase; Finished at the end.

    Raises:
      InputError: data, settings or folder that cannot be used.
      NonFiniteError: a loss was not finite.
    """
    dataset = data if isinstance(data, Dataset) else load_dataset(data)
    if source is None and not isinstance(data, Dataset):
        source = data
    source_name = dataset.name if source is None else _absolute(source)
    config = resolve(config, dataset)
    folder = RunFolder(Path(run_dir))
    facts = {
        "data": source_name,
        "sha256": dataset.sha256,
        "num_features": dataset.train.num_features,
        "num_labels": dataset.train.num_labels,
        "warm_start": None if warm_start is None else _absolute(warm_start),
    }
    # All that can be refused is refused before anything is written.
    folder.check(config, facts)
    weighting = Weighting.fit(config.weighting, dataset.train.features)
    first = _first_phase(config, dataset)
    phase = _PhaseRun(folder, config, dataset, weighting, first, warm_start)
    folder.write(config, facts, weighting, dataset.label_names)
    if folder.result.exists() and phase.done:
        yield Finished(read_json(folder.result))
        return
    yield from phase.run(profile)
    predictor, progress = phase.predictor(), phase.progress
    if config.refit:
        whole = _Phase("refit", dataset.train, None)
        share = progress.best_step / phase.source.steps_per_epoch
        phase = _PhaseRun(folder, config, dataset, weighting, whole, warm_start, share)
        yield from phase.run(False)
        predictor, progress = phase.predictor(), phase.progress

    scored = _score(predictor, config, dataset) if dataset.test is not None else {"metrics": {}}
    points = progress.step / phase.source.steps_per_epoch * phase.source.num_points
    result = {
        **scored,
        "data": {"name": dataset.name, "source": source_name, "sha256": dataset.sha256},
        "steps": progress.step,
        "epochs": progress.step / phase.source.steps_per_epoch,
        "best_step": progress.best_step or progress.step,
        "seconds": progress.seconds,
        "examples_per_second": points / progress.seconds,
        **surroundings(),
    }
    write_json(folder.result, result)
    yield Finished(result)


class _PhaseRun:
    """One phase of a run: set up, go on from its newest checkpoint, train."""

    def __init__(
        self,
        folder: RunFolder,
        config: Config,
        dataset: Dataset,
        weighting: Weighting,
        phase: _Phase,
        warm_start: str | Path | None,
        epochs: float | None = None,
    ):
        self._folder, self._config, self._phase = folder, config, phase
        self._dataset, self._weighting = dataset, weighting
        features = weighting.apply(phase.points.features)
        labels = phase.points.labels
        schedule_model = make_model(config, features.shape[1], labels.shape[1], 1)
        self.source: Source = make_source(
            schedule_model.head,
            features,
            labels,
            batch_size=config.batch_size,
            seed=config.seed,
            weight_of_term=config.positive_weights,
            resident=_resident(config, features.nnz, labels.nnz),
            sampler=config.sampler,
            frequency_power=config.frequency_power,
        )
        assert config.epochs != "auto"  # resolved
        total = config.epochs * self.source.steps_per_epoch
        self.last_step = (
            total if epochs is None else max(1, round(epochs * self.source.steps_per_epoch))
        )
        self.model: Model = dataclasses.replace(schedule_model, total_steps=total)
        self._checkpoints = folder.checkpoints(config.keep_checkpoints, phase.name)
        newest = self._checkpoints.latest()
        if newest is None:
            self.state = _initial(self.model, warm_start)
            self.progress = Progress()
        else:
            self.state = self._checkpoints.load(newest, abstract_state(self.model))
            self.progress = Progress(**self._checkpoints.progress(newest))
        if self.progress.step > self.last_step:
            found = f"{self.progress.step} steps done"
            raise InputError("--epochs", found, f"no fewer than these ({self.last_step} asked)")

    @property
    def done(self) -> bool:
        """Whether there is nothing left to train in a run of this phase alone."""
        return self.progress.stopped or self.progress.step == self.last_step

    def run(self, profile: bool) -> Iterator[Event | Started]:
        """Trains to the end, keeping the log."""
        config, source, phase = self._config, self.source, self._phase
        yield Started(
            phase.name,
            self.progress.step,
            self.last_step,
            source.steps_per_epoch,
            source.num_points,
        )
        if self.done:
            return
        events = run_steps(
            self.model,
            source,
            self.state,
            self.progress,
            last_step=self.last_step,
            steps_per_dispatch=config.steps_per_dispatch or _steps_per_dispatch(),
            checkpoints=self._checkpoints,
            checkpoint_every=config.checkpoint_every or source.steps_per_epoch,
            evaluate=self._validate if phase.held_out is not None else None,
            evaluate_every=config.evaluate_every or source.steps_per_epoch,
            monitor=config.monitor,
            patience=config.patience,
        )
        del self.state  # its buffers are donated to the first step
        trace = self._folder.path / "profile" if profile else None
        with EventLog(self._folder.path, phase.name, self.progress.step) as log:
            for event in _traced(events, trace):
                log.write(event)
                yield event

    def predictor(self) -> Predictor:
        """The model of this phase: its best checkpoint, or its last where nothing was watched."""
        step = self._checkpoints.best()
        assert step is not None
        state = self._checkpoints.load(step, abstract_state(self.model))
        return Predictor(self.model, state, self._weighting, self._dataset.label_names)

    def _validate(self, state: TrainState) -> dict[str, float]:
        assert self._phase.held_out is not None
        predictor = Predictor(self.model, state, self._weighting)
        frequency = self._dataset.label_frequency()
        found = evaluate_points(
            predictor,
            self._phase.held_out,
            frequency,
            self._dataset.train.num_points,
            propensity_a=self._config.propensity_a,
            propensity_b=self._config.propensity_b,
        )
        return found["metrics"]


def evaluate(
    run: str | Path,
    data: str | Path | Dataset | None = None,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Scores a trained model on the test points of its data set, or of another of that shape.

    Returns:
      As `evaluation.evaluate_points`.

    Raises:
      InputError: no run, no test points, or data of another shape.
    """
    from snm.config import read_config

    folder = RunFolder(Path(run))
    predictor = load(run)
    if data is None:
        facts = read_json(folder.facts)
        data = load_dataset(facts["data"])
        if data.sha256 != facts["sha256"]:
            found = "other content than when the run was trained"
            raise InputError(facts["data"], found, "the same, or to be named with --data")
    elif not isinstance(data, Dataset):
        data = load_dataset(data)
    if data.test is None:
        raise InputError(data.name, "no test points", "a test file beside the train file")
    model = predictor.model
    for what, found_width, width in (
        ("features", data.test.num_features, model.num_features),
        ("labels", data.test.num_labels, model.head.num_labels),
    ):
        if found_width != width:
            raise InputError(data.name, f"{found_width} {what}", f"{width}, as in training")
    return _score(predictor, read_config(folder.config), data, on_progress)


def _score(
    predictor: Predictor,
    config: Config,
    dataset: Dataset,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    assert dataset.test is not None
    return evaluate_points(
        predictor,
        dataset.test,
        dataset.label_frequency(),
        dataset.train.num_points,
        propensity_a=config.propensity_a,
        propensity_b=config.propensity_b,
        duplicates=duplicate_test_rows(dataset),
        on_progress=on_progress,
    )


def _absolute(data: str | Path) -> str:
    return str(data) if str(data) == "synthetic" else str(Path(data).resolve())


def _first_phase(config: Config, dataset: Dataset) -> _Phase:
    if not config.validation_fraction:
        return _Phase("train", dataset.train, None)
    known = metric_names(dataset.train.num_labels)
    if config.monitor not in known:
        near = difflib.get_close_matches(config.monitor, known, n=1, cutoff=0.0)[0]
        found = f"{config.monitor!r}, no metric"
        raise InputError("--monitor", found, f"for example {near}")
    parts = dataset.split(config.validation_fraction, config.seed)
    assert parts.test is not None
    if not parts.train.labels.nnz or not parts.test.labels.nnz:
        found = f"{config.validation_fraction} of {dataset.train.num_points} points"
        raise InputError("--validation-fraction", found, "labels in either part")
    return _Phase("train", parts.train, parts.test)


def _initial(model: Model, warm_start: str | Path | None) -> TrainState:
    if warm_start is None:
        return jax.jit(init_state, static_argnums=0)(model)
    other = load(warm_start)
    wanted = abstract_state(model)
    shapes = [jax.tree.map(np.shape, (s.features.rows, s.tower, s.head.table.rows, s.head.bias))
              for s in (other.state, wanted)]  # fmt: skip
    if shapes[0] != shapes[1]:
        raise InputError(
            f"--warm-start {warm_start}",
            _described(other.model),
            _described(model),
        )
    fresh, old = init_state(model), other.state
    # A fixed multiplier is a setting, a learned one a parameter.
    learned = model.head.learn_scale
    return dataclasses.replace(
        fresh,
        features=dataclasses.replace(fresh.features, rows=old.features.rows),
        tower=old.tower,
        head=dataclasses.replace(
            fresh.head,
            table=dataclasses.replace(fresh.head.table, rows=old.head.table.rows),
            bias=old.head.bias,
            log_scale=old.head.log_scale if learned else fresh.head.log_scale,
        ),
    )


def _described(model: Model) -> str:
    bias = "with" if model.head.bias else "without"
    return (
        f"{model.num_features} features, {model.head.num_labels} labels, dim {model.dim}, "
        f"encoder {model.encoder}, {bias} bias"
    )


def _steps_per_dispatch() -> int:
    return _CPU_STEPS if jax.default_backend() == "cpu" else _ACCELERATOR_STEPS


def _resident(config: Config, *entries: int) -> bool:
    """Whether the training set lives on the device: where it is an accelerator with room."""
    if config.data_on != "auto":
        return config.data_on == "device"
    if jax.default_backend() == "cpu":
        return False  # the host's memory is the device's: nothing to gain
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    return 8 * sum(entries) < _RESIDENT_SHARE * limit


def _traced(events: Iterator[Event], folder: Path | None) -> Iterator[Event]:
    """Passes events on, with a profiler trace around a few of them."""
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
