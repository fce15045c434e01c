"""Runs one training job of a comparison in a process: `python -m snm.compare.worker TASK.json`.

The worker trains in a folder next to its task file, resumes an interrupted run, and writes the
result file atomically at the end. On SIGTERM it writes a checkpoint and exits with status 75. It
exits at once when its parent process is gone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from snm.compare.processes import end_with_parent
from snm.compare.records import read_record, write_record
from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.errors import STOPPED, InputError, StoppedError
from snm.stores.objects import StoreError
from snm.system.files.locks import locked
from snm.system.imports import import_own_modules
from snm.system.signals import stop_requested
from snm.system.streams import print_error

__all__ = ["main", "run_task"]

_PROGRESS_SECONDS = 1.0  # between writes of the progress file
_VALIDATION_FRACTION = 0.2
_BOUND_POINTS = 10_000  # training points whose margins are measured for the bounds


def run_task(task: Path, stop: Callable[[], bool] | None = None) -> dict[str, Any]:
    """Trains, evaluates, and writes the result next to the task file.

    Args:
      task: a file `NAME.task.json` with the data, the split, the settings and the number of probes.
      stop: see `snm.trainer.training.training`.

    Raises:
      InputError: the data or the settings are not valid.
      NonFiniteError: a loss was not finite.
      StoppedError: `stop` returned True.
    """
    from snm.compare.probe import ModelProbe
    from snm.data.load import load
    from snm.runs.events import Finished, Started, Stepped
    from snm.trainer.phase import count_steps_per_epoch
    from snm.trainer.training import training

    options = read_record(task)
    name = task.name.removesuffix(".task.json")
    folder = task.parent
    config = ResolvedConfig(**options["config"])
    dataset = load(options["data"])
    if options["split"] == "validation":
        dataset = dataset.split(_VALIDATION_FRACTION, seed=0)
    probe, every = None, 0
    if options["probes"]:
        every = -(-config.epochs // options["probes"]) * count_steps_per_epoch(config, dataset)
        probe = ModelProbe(dataset, config)
    total, reported, result = 0, 0.0, {}
    run = folder / name
    for event in training(dataset, config, run, source=options["data"], probe=probe,
                          probe_every=every, stop=stop):  # fmt: skip
        if isinstance(event, Started):
            total = event.last_step
        elif isinstance(event, Stepped) and time.monotonic() - reported > _PROGRESS_SECONDS:
            reported = time.monotonic()
            (folder / f"{name}.steps").write_text(f"{event.step} {total}")
        elif isinstance(event, Finished):
            result = event.result
    record = {"arm": options["arm"], "split": options["split"], "seed": config.seed, **result}
    record["probes"] = _read_probes(run / "log.jsonl")
    if options["probes"]:
        record["bounds"] = _bounds(run, dataset, config, result["metrics"])
    write_record(folder / f"{name}.json", record)
    return record


def _bounds(
    run: Path, dataset: Dataset, config: ResolvedConfig, metrics: dict[str, float]
) -> dict[str, Any]:
    """Generalization bounds of a run, on at most `_BOUND_POINTS` random training points."""
    from snm.bounds.measure import bounds_of_run, measure_margins
    from snm.runs.stored_run import load

    k, predictor = min(config.retrieval_k, dataset.train.num_labels - 1), load(run)
    sample = measure_margins(predictor, dataset.train, k, max_points=_BOUND_POINTS)
    bounds = bounds_of_run(
        predictor,
        sample,
        None,
        k=k,
        delta=0.05,
        sampler=config.sampler,
        positive_weights=config.positive_weights,
    )
    # The retrieval risk of a random label of each point is 1 minus the recall.
    if f"R@{k}" in metrics:
        bounds["test_risk"] = 1 - metrics[f"R@{k}"] / 100
    return bounds


def _read_probes(log: Path) -> list[dict[str, Any]]:
    """The measurements of the probe, by step."""
    from snm.runs.log.entries import read_entries

    return [
        {"step": entry["step"], "seconds": entry["seconds"], **entry["found"]}
        for entry in read_entries(log, "probed")
    ]


def main() -> int:
    """Runs the task of the command line; returns the exit status."""
    end_with_parent()
    task = Path(sys.argv[1])
    # An earlier worker of the same task may not have exited yet.
    lock = task.with_name(task.name.replace(".task.json", ".lock"))
    from snm.system.compilation_cache import enable_compilation_cache

    enable_compilation_cache()
    try:
        import_own_modules()
        with (
            locked(lock, str(lock), wait=True),
            stop_requested(lambda _: None, lambda: None) as stop,
        ):
            run_task(task, stop)
    except StoppedError:
        return STOPPED
    except (InputError, StoreError, ArithmeticError, OSError) as error:
        print_error(str(getattr(error, "as_flags", error)))
        return 2 if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
