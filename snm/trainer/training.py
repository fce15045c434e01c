"""A training run from data to result: `training` yields its events; `train` returns its result.

Both write the run's folder, and the same call again resumes from the last checkpoint.
"""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.errors import InputError
from snm.prediction.predictor import Predictor
from snm.runs.events import Event, Finished
from snm.runs.log.progress_bar import in_notebook, show_progress
from snm.runs.mirror import open_location
from snm.system.timing import timed_separately
from snm.trainer.request import RunRequest, load_for_run
from snm.trainer.run import PlannedRun
from snm.trainer.steps.loop import Probe

__all__ = ["train", "training"]


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
) -> Generator[Event]:
    """Trains a model, and yields events.

    Args:
      data: a folder, its address in a store (`gs://`, `s3://`), `synthetic`, or a data set.
      config: the settings.
      run_dir: folder of the run, or its address in a store, where each checkpoint and the result
        appear as a whole; a run with the same settings and data goes on.
      source: the path that a `Dataset` passed as `data` can be loaded from again.
      warm_start: folder of another run, whose parameters this one starts from; labels are mapped by
        their names.
      same_ids: labels without names mean the same in that run.
      profile: write a profiler trace of a few dispatches to `run_dir/profile`.
      probe: a function of the model, a `Predictor`, that is called regularly, before the first step
        too. It returns a dict of what it found, name -> number, which becomes an event Probed and a
        line of the log; its time does not count as training.
      probe_every: steps between its calls; 0 is once an epoch.
      stop: called after every dispatch, and while the test points are scored. If it returns True,
        the run saves a checkpoint and ends with StoppedError. `snm train` passes a function that
        returns True after a signal; by default signals are not handled.
      progress: draw a live progress bar; None draws it in notebooks only.

    Yields:
      For each phase Started, then Stepped, Evaluated, Saved, Probed, Skipped and Noted as they
      happen; Finished at the end. Members that train side by side yield their events one after the
      other: those of a later member wait until the earlier members end. The time that the caller
      spends between two events counts as training time, so do little there. Closing the generator
      ends the run; the same call resumes it from its last checkpoint.

    Raises:
      InputError: invalid data, settings or folder; another process uses the folder.
      NonFiniteError: a loss was not finite.
      SavingError: a checkpoint could not be written; earlier ones are intact.
      StoreError: a store gave up; the folder on this machine is whole.
      StoppedError: `stop` returned True.
    """

    def run() -> Generator[Event]:
        if not isinstance(config, Config):
            expected = "a Config, such as snm.preset('default')"
            raise InputError("config", f"{config!r}"[:80], expected)
        if not isinstance(run_dir, (str, os.PathLike)):
            raise InputError("run_dir", f"{run_dir!r}"[:80], "a folder, or an address in a store")
        request = RunRequest(
            source=data if source is None and not isinstance(data, Dataset) else source,
            warm_start=warm_start,
            same_ids=same_ids,
            profile=profile,
            probe=_make_probe(probe, probe_every),
            stop=stop,
        )
        dataset = load_for_run(data, config, run_dir, request)
        with open_location(run_dir) as location:
            yield from PlannedRun.of(dataset, config, location).events(request)

    events = timed_separately(run())
    return show_progress(events) if (in_notebook() if progress is None else progress) else events


def _make_probe(
    function: Callable[[Predictor], dict[str, Any]] | None, every: int
) -> Probe[Predictor] | None:
    """The probe of these arguments of `training`, which checks what the function returns.

    Raises:
      InputError: arguments that cannot be used.
    """
    if function is not None and not callable(function):
        raise InputError("probe", f"{function!r}"[:80], "a function of a Predictor, or None")
    if not isinstance(every, numbers.Integral) or every < 0:
        expected = "a whole number of steps, or 0 for once an epoch"
        raise InputError("probe_every", f"{every!r}"[:80], expected)
    if function is None:
        if every:
            raise InputError("probe_every", f"{every} and no probe", "a probe to call")
        return None

    def checked(predictor: Predictor) -> dict[str, Any]:
        result = function(predictor)
        if not isinstance(result, dict):
            found = f"{type(result).__name__} returned"
            raise InputError("probe", found, "a dict of what it found, name -> number")
        return result

    return Probe(checked, every)
