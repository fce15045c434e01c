"""Runs a comparison: all arms at equal steps, then tuned, then at equal training time.

The number of epochs for equal time depends on measured seconds. It is written to a file, so that an
interrupted comparison continues with the same settings.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from snm.compare.arms import EXTRAS, Arm, ResolvedArm, tuning_grid
from snm.compare.jobs import Job, Running, read_result, run_jobs
from snm.compare.records import read_record, write_record
from snm.compare.report.flat import SETTINGS
from snm.compare.report.summary import BY_LOSS, is_metric, summarize
from snm.config.resolve import resolve
from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config, unused_settings
from snm.config.stages import SizeSchedule
from snm.data.dataset import Dataset
from snm.data.load import absolute_source
from snm.errors import InputError, StoppedError
from snm.text import counted

__all__ = ["FIXED_SETTINGS", "WITHOUT_MEMORY", "Campaign", "sampled_range"]

_TUNING_METRIC = "R@1"
"""The metric that tuning maximizes, on the held-out fifth of train."""

FIXED_SETTINGS: dict[str, Any] = {
    "members": 1, "validation_fraction": 0.0, "evaluate_every": 0, "patience": 0,
    "monitor": "P@1", "refit": False, "seed": 0,
}  # fmt: skip
"""Settings of all arms: one model per run, and no validation, which the comparison does itself. The
seed is set for each run."""

WITHOUT_MEMORY: dict[str, Any] = {"memory": "off", "logit_adjustment": "off"}
"""Settings of all arms, unless a memory is asked for: its votes are much the same for every loss,
and can hide most of the difference between losses."""

_PROBES = 8  # probe calls during each run of the first table
_MAX_EPOCH_FACTOR = 20  # limit of the epochs at equal time, relative to the requested epochs

OnProgress = Callable[[str, Running], None]
"""A progress callback: called with the stage and the state of its jobs."""


class Campaign:
    """Runs a comparison in a folder.

    Args:
      data: source of the data set, as for `snm.load_data`.
      dataset: the data set.
      arms: the arms, not yet resolved.
      folder: folder of results and unfinished runs.
      seeds: number of seeds, counted from 0.
      tune: whether to also run each arm with the best settings of its grid.
      tune_epochs: epochs of a tuning trial; None means half of a run's.
      equal_seconds: whether to also run each arm for as long as its baseline took.
      jobs: number of concurrent processes.
      on_progress: called with the stage and the state of its jobs.

    Attributes:
      arms: the arms with resolved settings.

    Raises:
      InputError: settings that do not fit the data.
    """

    def __init__(
        self,
        data: str,
        dataset: Dataset,
        arms: Sequence[Arm],
        folder: Path,
        *,
        seeds: int = 1,
        tune: bool = False,
        tune_epochs: int | None = None,
        equal_seconds: bool = False,
        jobs: int = 1,
        on_progress: OnProgress = lambda *_: None,
    ):
        self._data, self._dataset, self._on_progress = data, dataset, on_progress
        self._num_seeds, self._tune, self._jobs = seeds, tune, jobs
        self._equal_seconds = equal_seconds
        self._stop: Callable[[], bool] = lambda: False
        self._runs, self._epochs_file = folder / "runs", folder / "decided.json"
        configs = [_resolved(arm, dataset) for arm in arms]
        self.arms = [
            ResolvedArm(arm.name, config, arm.baseline, arm.about + _with_memory(config))
            for arm, config in zip(arms, configs, strict=True)
        ]
        self._tune_epochs = tune_epochs or max(1, self.arms[0].config.epochs // 2)

    def plan(self) -> dict[str, Any]:
        """The content of `plan.json`: what is compared, with which settings."""
        config = self.arms[0].config
        return {
            "data": absolute_source(self._data),
            "sha256": self._dataset.sha256,
            "arms": [arm.name for arm in self.arms],
            # The results hold the differences of the other arms.
            "settings": dataclasses.asdict(config),
            "seeds": self._num_seeds,
            "tune": self._tune,
            "tune_epochs": self._tune_epochs,
            "trials": len(tuning_grid(config)),
            "equal_seconds": self._equal_seconds,
            "jobs": self._jobs,
        }

    def run(self, stop: Callable[[], bool] = lambda: False) -> Iterator[dict[str, Any]]:
        """Runs all stages.

        Args:
          stop: called several times a second; True ends the comparison early.

        Yields:
          The results so far, after each stage: `arms` (equal steps), then `tuning` and `tuned`, and
          `equal_seconds`, if the settings have them.

        Raises:
          StoppedError: `stop` returned True, or a run was stopped by a signal; no run is active.
        """
        self._stop = stop
        first = self._table("equal steps", self.arms, probes=_PROBES)
        results: dict[str, Any] = {"arms": first}
        yield results
        if self._tune:
            results["tuning"] = self._tuning()
            chosen = [
                dataclasses.replace(arm, config=dataclasses.replace(arm.config, **best))
                for arm in self.arms
                if (best := results["tuning"][arm.name]["best"]) is not None
            ]
            results["tuned"] = self._table("tuned", chosen)
            yield results
        if self._equal_seconds:
            results["equal_seconds"] = self._table("equal seconds", self._arms_at_equal_time(first))
            yield results

    # -- stages --------------------------------------------------------------------------------

    def _table(
        self, stage: str, arms: Sequence[ResolvedArm], probes: int = 0
    ) -> list[dict[str, Any]]:
        """Trains every arm with every seed and summarizes the test metrics."""
        jobs = {
            (arm.name, seed): Job(arm.name, dataclasses.replace(arm.config, seed=seed), "test",
                                  self._num_probes(arm, probes))
            for seed in range(self._num_seeds)
            for arm in arms
        }  # fmt: skip
        self._run_jobs(stage, list(jobs.values()))
        differing = _differing(arms)
        results = {key: read_result(self._runs, job) or {} for key, job in jobs.items()}
        successful = {
            arm.name: [results[arm.name, seed] for seed in range(self._num_seeds)
                       if "metrics" in results[arm.name, seed]]
            for arm in arms
        }  # fmt: skip
        loss_of = {arm.name: arm.config.loss for arm in arms}
        # Of other losses, a ratio would be one of learning rates and score scales as well.
        baselines = {arm.name: successful[arm.baseline] for arm in arms
                     if loss_of.get(arm.baseline) == arm.config.loss}  # fmt: skip
        return [
            {
                "name": arm.name,
                "about": arm.about + _rate_and_scale(arm.config, arms[0].config),
                "baseline": arm.baseline,
                **_values(arm, SETTINGS),
                "differing": _values(arm, differing),
                "seeds": [
                    {"seed": seed, **_reported(results[arm.name, seed])}
                    for seed in range(self._num_seeds)
                ],
                "seconds": _mean(successful[arm.name], "seconds"),
                "peak_memory_bytes": _mean(successful[arm.name], "peak_memory_bytes"),
                **summarize(successful[arm.name], baselines.get(arm.name, [])),
            }
            for arm in arms
        ]

    def _num_probes(self, arm: ResolvedArm, probes: int) -> int:
        """The number of probes of a run; as in the first table, if it has an equal run to share."""
        shared = any(arm.config == first.config for first in self.arms)
        return _PROBES if shared else probes

    def _tuning(self) -> dict[str, Any]:
        """Runs the trials of every arm; returns the trials and best settings by name of the arm."""
        trials = {
            (arm.name, number): (
                settings,
                Job(arm.name, dataclasses.replace(arm.config, seed=0,
                    epochs=self._tune_epochs, **settings), "validation"),
            )
            for arm in self.arms
            for number, settings in enumerate(tuning_grid(arm.config))
        }  # fmt: skip
        self._run_jobs("tuning", [job for _, job in trials.values()])
        tuning: dict[str, Any] = {arm.name: {"trials": []} for arm in self.arms}
        for (name, _), (settings, job) in trials.items():
            result = read_result(self._runs, job) or {}
            trial: dict[str, Any] = {"settings": settings}
            if "metrics" in result:
                trial["validation"] = {k: v for k, v in result["metrics"].items() if is_metric(k)}
                trial["seconds"] = result["seconds"]
            else:
                trial["failed"] = result.get("error", "no result")
            tuning[name]["trials"].append(trial)
        for arm_tuning in tuning.values():
            scored = [trial for trial in arm_tuning["trials"] if "validation" in trial]
            best = max(scored, key=lambda trial: trial["validation"][_TUNING_METRIC], default=None)
            arm_tuning["best"] = None if best is None else best["settings"]
        return tuning

    def _arms_at_equal_time(self, first: Sequence[dict[str, Any]]) -> list[ResolvedArm]:
        """The arms with as many epochs as fit the training time of their baseline."""
        seconds = {arm["name"]: arm["seconds"] for arm in first}
        jobs = {arm.name: Job(arm.name, arm.config, "test").name for arm in self.arms}
        epochs = read_record(self._epochs_file) if self._epochs_file.exists() else {}
        arms = []
        for arm in self.arms:
            # The key has the settings: a resumed comparison may have other settings under a name.
            pair = f"{jobs[arm.name]} of {jobs[arm.baseline]}"
            seconds_of_arm, seconds_of_baseline = seconds[arm.name], seconds[arm.baseline]
            if pair not in epochs and seconds_of_arm and seconds_of_baseline:
                factor = min(seconds_of_baseline / seconds_of_arm, _MAX_EPOCH_FACTOR)
                epochs[pair] = max(1, round(arm.config.epochs * factor))
            if pair in epochs:
                config = dataclasses.replace(arm.config, epochs=epochs[pair])
                arms.append(dataclasses.replace(arm, config=config))
        write_record(self._epochs_file, epochs)
        return arms

    def _later_runs(self, stage: str) -> tuple[tuple[str, int], ...]:
        """Arm and epochs of the runs of later stages, to estimate the remaining time.

        At equal seconds, an arm takes as long as its baseline, which has run already.
        """
        seeds = self._num_seeds
        runs: dict[str, list[tuple[str, int]]] = {"equal steps": []}
        if self._tune:
            runs["tuning"] = [(arm.name, self._tune_epochs) for arm in self.arms
                              for _ in tuning_grid(arm.config)]  # fmt: skip
            runs["tuned"] = seeds * [(arm.name, arm.config.epochs) for arm in self.arms]
        if self._equal_seconds:
            runs["equal seconds"] = seeds * [(arm.baseline, arm.config.epochs) for arm in self.arms
                                             if arm.name != arm.baseline]  # fmt: skip
        names = list(runs)
        return tuple(run for name in names[names.index(stage) + 1 :] for run in runs[name])

    def _run_jobs(self, stage: str, jobs: list[Job]) -> None:
        later = self._later_runs(stage)
        states = run_jobs(self._data, self._runs, jobs, self._jobs)
        with contextlib.closing(states):  # closing ends the processes
            for state in states:
                self._on_progress(stage, dataclasses.replace(state, later=later))
                if state.stopped or (state.left and self._stop()):
                    kept = f"{state.done} of {counted(state.total, 'run')} finished ({stage})"
                    raise StoppedError(kept=kept)


def _resolved(arm: Arm, dataset: Dataset) -> ResolvedConfig:
    try:
        return resolve(dataclasses.replace(arm.config, **FIXED_SETTINGS), dataset)
    except InputError as error:
        if error.where != "--sampler" or arm.name not in EXTRAS:
            raise
        # The extra sets the sampler; `snm compare` has no flag --sampler.
        expected = "fewer --sampled, or no such arm: otherwise none is drawn"
        raise InputError(f"--extras {arm.name}", error.found, expected) from error


def _with_memory(config: ResolvedConfig) -> str:
    """Says that the votes of a memory are part of an arm's answers."""
    return "; with a memory of neighbours" if config.memory == "on" else ""


def _rate_and_scale(config: ResolvedConfig, first: ResolvedConfig) -> str:
    """Describes learning rate and score scale, if they differ from those of the first arm."""
    parts = [
        f"; {words} {value:.4g}"
        for name, words in BY_LOSS.items()
        if (value := getattr(config, name)) != getattr(first, name)
    ]
    return "".join(parts)


def _differing(arms: Sequence[ResolvedArm]) -> list[str]:
    """The settings in which arms differ."""
    return [
        field.name
        for field in dataclasses.fields(ResolvedConfig)
        if any(
            getattr(arm.config, field.name) != getattr(arms[0].config, field.name) for arm in arms
        )
    ]


def _values(arm: ResolvedArm, names: Iterable[str]) -> dict[str, Any]:
    """The values of settings; None if the arm does not read one."""
    ignored = unused_settings(arm.config)
    return {name: None if name in ignored else getattr(arm.config, name) for name in names}


def _reported(result: dict[str, Any]) -> dict[str, Any]:
    """The part of a run's result that goes into `results.json`, or why it failed."""
    if "metrics" not in result:
        return {"failed": result.get("error", "no result")}
    names = ("metrics", "seconds", "steps", "examples_per_second", "peak_memory_bytes",
             "peak_device_memory_bytes", "by_label_frequency", "probes", "bounds")  # fmt: skip
    return {name: result[name] for name in names if name in result}


def _mean(results: Sequence[dict[str, Any]], name: str) -> float | None:
    return float(np.mean([result[name] for result in results])) if results else None


def sampled_range(config: Config, dataset: Dataset) -> tuple[int, int]:
    """The smallest and the largest B, the number of sampled labels, over the stages of a run.

    k' must not exceed the former. If it equals the latter, all stages are negative sampling.

    Args:
      config: settings of negative sampling.
      dataset: what is trained on.

    Raises:
      InputError: settings that do not fit the data.
    """
    resolved = resolve(dataclasses.replace(config, **FIXED_SETTINGS), dataset)
    sampled = SizeSchedule.of(resolved, dataset.train.num_labels).sampled
    return min(sampled), max(sampled)
