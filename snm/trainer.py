"""A training run from data to result, top to bottom.

`training` yields what happens, `train` only returns the result. Both keep the run's folder; the
same call again goes on where the last one stopped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from snm.config import Config
from snm.data.dataset import Dataset
from snm.data.dataset import load as load_dataset
from snm.data.stats import duplicate_test_rows
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation import evaluate_points
from snm.phases import Phase, PhaseRun, Started, first_phase, member_seed
from snm.prediction import Predictor
from snm.runs import (
    RunFolder,
    assemble,
    load,
    phase_names,
    read_json,
    resolve,
    surroundings,
    write_json,
)
from snm.training import Event

__all__ = ["Finished", "Started", "evaluate", "train", "training"]


@dataclasses.dataclass(frozen=True)
class Finished:
    """The run is over: the content of result.json."""

    result: dict[str, Any]


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
    probe: Callable[[Predictor], dict[str, Any]] | None = None,
    probe_every: int = 0,
) -> Iterator[Event | Started | Finished]:
    """Trains a model, and yields what happens.

    Args:
      data: a folder, `synthetic`, or a data set.
      config: the settings.
      run_dir: folder of the run; one with the same settings and data goes on.
      source: where a data set that is passed as such can be loaded from again.
      warm_start: another run, whose parameters this one starts from.
      profile: write a trace of a few dispatches to `run_dir/profile`.
      probe: looks at the model now and then, and decides nothing; what it finds is an event
        Probed and a line of the log. Its time does not count as training.
      probe_every: steps between its looks; 0 is once an epoch.

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
    first = first_phase(config, dataset)
    looks: dict[str, Any] = {"probe": probe, "probe_every": probe_every}
    phase = PhaseRun(folder, config, dataset, weighting, first, warm_start, **looks)
    folder.write(config, facts, weighting, dataset.label_names, dataset.vectorizer)
    if phase.done and _result_stands(folder, config):
        yield Finished(read_json(folder.result))
        return
    assert config.members != "auto"  # resolved
    done: list[PhaseRun] = []
    for member in range(1, config.members + 1):
        train_name, refit_name = phase_names(member)
        mine = dataclasses.replace(config, seed=member_seed(config.seed, member))
        if member > 1:
            first = dataclasses.replace(first, name=train_name)
            phase = PhaseRun(folder, mine, dataset, weighting, first, warm_start, member=member)
        yield from phase.run(profile and member == 1)
        if config.refit:
            whole = Phase(refit_name, dataset.train, None)
            share = phase.progress.best_step / phase.source.steps_per_epoch
            phase = PhaseRun(
                folder, mine, dataset, weighting, whole, warm_start, share, member=member
            )
            yield from phase.run(False)
        done.append(phase)

    predictor = assemble(folder, config, facts, weighting, dataset.label_names, finished=True)
    scored = _score(predictor, config, dataset) if dataset.test is not None else {"metrics": {}}
    seconds = sum(phase.progress.seconds for phase in done)
    progress = done[0].progress
    result = {
        **scored,
        "data": {"name": dataset.name, "source": source_name, "sha256": dataset.sha256},
        "members": config.members,
        "steps": progress.step,
        "epochs": progress.step / done[0].source.steps_per_epoch,
        "epochs_asked": config.epochs,
        "best_step": progress.best_step or progress.step,
        "seconds": seconds,
        "examples_per_second": sum(phase.points for phase in done) / seconds,
        **surroundings(),
    }
    write_json(folder.result, result)
    yield Finished(result)


def _result_stands(folder: RunFolder, config: Config) -> bool:
    """Whether there is a result, and it is that of as many epochs as are asked for now."""
    if not folder.result.exists():
        return False
    return read_json(folder.result).get("epochs_asked", config.epochs) == config.epochs


def evaluate(
    run: str | Path,
    data: str | Path | Dataset | None = None,
    *,
    on_progress: Callable[[int], None] | None = None,
    wrap: Callable[[Predictor], Any] | None = None,
) -> dict[str, Any]:
    """Scores a trained model on the test points of its data set, or of another of that shape.

    Args:
      run: the run's folder.
      data: another data set than the run's.
      on_progress: told the number of points done.
      wrap: what answers in the predictor's place, such as a search index over its class rows.

    Returns:
      As `evaluation.evaluate_points`.

    Raises:
      InputError: no run, no test points, or data of another shape.
    """
    from snm.config import read_config

    folder = RunFolder(Path(run))
    predictor = load(run)
    if wrap is not None:
        predictor = wrap(predictor)
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
    """A path that holds from everywhere; `synthetic` and names of fetched sets do already."""
    return str(Path(data).resolve()) if Path(data).exists() else str(data)
