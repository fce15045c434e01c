"""A run's numbers in Weights & Biases and in MLflow, through their own packages.

`tracked` passes the events of a run on, and tells the services what `log.jsonl` is told. A run that
goes on where it stopped goes on in the service too: under the same id, each step once. A service
that begins in the middle of a run is first given what `log.jsonl` has.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import math
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from snm.config.settings import read_config
from snm.errors import InputError, StoppedError
from snm.runs.events import Evaluated, Event, Finished, Noted, Started, Stepped
from snm.runs.folder import RunFolder, read_json, write_json

__all__ = ["TRACKERS", "Point", "Tracker", "check_trackers", "tracked"]

_EVERY = 2.0  # seconds between two words with a service
_PROJECT = "snm"
_EXPECTED = {
    "wandb": "a service that answers (`wandb login`; or WANDB_MODE=offline)",
    "mlflow": "a service that answers (MLFLOW_TRACKING_URI)",
}


class Point(NamedTuple):
    """A number of a run: `train/loss` at step 40."""

    phase: str
    name: str
    value: float
    step: int


class Tracker(Protocol):
    """A service, and one run in it."""

    id: str

    def log(self, points: list[Point]) -> None:
        """Takes numbers."""

    def finish(self, metrics: dict[str, float], status: str) -> None:
        """The end: metrics on the test points, and `done`, `stopped` or `failed`."""


class _WandB:
    """Weights & Biases; WANDB_PROJECT, WANDB_MODE and the like count."""

    def __init__(self, folder: Path, about: dict[str, Any], known: str | None):
        import wandb

        self.id = known or secrets.token_hex(8)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=os.environ.get("WANDB_NAME", folder.resolve().name),
            id=self.id,
            resume="allow",
            dir=folder,
            config=about,
            settings=wandb.Settings(silent=True),
        )
        self._defined: set[str] = set()

    def log(self, points: list[Point]) -> None:
        """Each phase has its own steps, from 0."""
        for point in points:
            if point.phase not in self._defined:
                self._run.define_metric(f"{point.phase}/*", step_metric=f"{point.phase}/step")
                self._defined.add(point.phase)
            values = {point.name: point.value, "step": point.step}
            self._run.log({f"{point.phase}/{name}": value for name, value in values.items()})

    def finish(self, metrics: dict[str, float], status: str) -> None:
        """The metrics are its summary."""
        self._run.summary.update({f"test/{name}": value for name, value in metrics.items()})
        self._run.finish(exit_code=0 if status == "done" else 1)


class _MLflow:
    """MLflow; MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME count."""

    def __init__(self, folder: Path, about: dict[str, Any], known: str | None):
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = MlflowClient()
        if known is None:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
            found = self._client.get_experiment_by_name(name)
            place = found.experiment_id if found else self._client.create_experiment(name)
            run = self._client.create_run(place, run_name=folder.resolve().name)
            self.id = run.info.run_id
            params = [Param(key, str(value)) for key, value in about.items()]
            self._client.log_batch(self.id, params=params)
        else:
            self.id = known
            self._client.update_run(known, status="RUNNING")

    def log(self, points: list[Point]) -> None:
        """In batches: it answers before it returns."""
        self._send({(f"{p.phase}/{p.name}", p.step): p.value for p in points})

    def finish(self, metrics: dict[str, float], status: str) -> None:
        """The metrics are those of step 0."""
        self._send({(f"test/{name}", 0): value for name, value in metrics.items()})
        words = {"done": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
        self._client.set_terminated(self.id, words[status])

    def _send(self, values: dict[tuple[str, int], float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        # It has no @ in names.
        metrics = [Metric(name.replace("@", "_at_"), value, now, step)
                   for (name, step), value in values.items()]  # fmt: skip
        for first in range(0, len(metrics), 1000):  # the most that it takes at once
            self._client.log_batch(self.id, metrics=metrics[first : first + 1000])


TRACKERS: dict[str, Any] = {"wandb": _WandB, "mlflow": _MLflow}
"""Name, which is the package's and the extra's -> what opens a run there."""


def check_trackers(names: Iterable[str]) -> None:
    """Whether the packages are there; imports none of them.

    Raises:
      InputError: one is missing, or unknown.
    """
    for name in names:
        if name not in TRACKERS:
            raise InputError(f"--log-to {name}", "no such service", " or ".join(TRACKERS))
        if importlib.util.find_spec(name) is None:
            found, expected = "its package is not installed", f"pip install 'snm[{name}]'"
            raise InputError(f"--log-to {name}", found, expected)


def tracked(events: Iterable[Event], names: Iterable[str], run_dir: str | Path) -> Iterator[Event]:
    """Passes the events of `snm.training` on, and tells services.

    A service that fails while the run is under way is told of once and left alone: a run of hours
    does not end for it. Its numbers are in `log.jsonl`.

    Args:
      events: of `snm.training`.
      names: of TRACKERS.
      run_dir: the same folder; the runs' ids are kept in its `trackers.json`.

    Raises:
      InputError: a package that is missing, a service that cannot be reached at the start.
    """
    names = list(dict.fromkeys(names))
    check_trackers(names)
    return _tracked(events, _Services(names, RunFolder(Path(run_dir)))) if names else iter(events)


def _tracked(events: Iterable[Event], services: _Services) -> Iterator[Event]:
    phase, metrics, status = "train", {}, "failed"
    try:
        for event in events:
            if isinstance(event, Started | Finished):  # before, the run may still be refused
                services.open()
            if isinstance(event, Started):
                phase = event.phase
            elif isinstance(event, Finished):
                metrics, status = _numbers(event.result["metrics"]), "done"
            services.take(_points(event, phase))
            for text in services.notes():
                yield Noted(getattr(event, "step", 0), text)
            yield event
    except StoppedError:
        status = "stopped"
        raise
    finally:
        services.finish(metrics, status)
    for text in services.notes():
        yield Noted(0, text)


class _Services:
    """Those that a run is logged to: what was told them, and what waits to be told."""

    def __init__(self, names: list[str], folder: RunFolder):
        self._names, self._folder = names, folder
        # As the log is now: the run has not gone on yet.
        self._past = list(_past(folder.log))
        self._told = {(point.phase, point.name): point.step for point in self._past}
        self._outs: dict[str, Tracker] | None = None
        self._waiting: list[Point] = []
        self._notes: list[str] = []
        self._sent = time.monotonic()

    def open(self) -> None:
        """Opens the runs, once; one that is new gets what the log has."""
        if self._outs is not None:
            return
        self._outs = {}
        place = self._folder.path / "trackers.json"
        ids = read_json(place) if place.exists() else {}
        settings = dataclasses.asdict(read_config(self._folder.config))
        about = {**settings, "data": str(read_json(self._folder.facts)["data"])}
        for name in self._names:
            try:
                out = TRACKERS[name](self._folder.path, about, ids.get(name))
                if name not in ids:
                    out.log(self._past)
            except Exception as error:  # whatever a service's client raises
                raise InputError(
                    f"--log-to {name}", _said(error), _EXPECTED.get(name, "a service that answers")
                ) from error
            self._outs[name] = out
            ids[name] = out.id
        write_json(place, ids)

    def take(self, points: Iterable[Point]) -> None:
        """Keeps what was not told before a run went on; tells it every few seconds."""
        for point in points:
            if point.step > self._told.get((point.phase, point.name), -1):
                self._waiting.append(point)
        if time.monotonic() - self._sent > _EVERY:
            self._send()

    def notes(self) -> list[str]:
        """What a person should hear since the last time."""
        said, self._notes = self._notes, []
        return said

    def finish(self, metrics: dict[str, float], status: str) -> None:
        """Tells the rest, and ends the runs."""
        self._send()
        for name in list(self._outs or {}):
            self._guarded(name, "finish", metrics, status)

    def _send(self) -> None:
        waiting, self._waiting, self._sent = self._waiting, [], time.monotonic()
        for name in list(self._outs or {}) if waiting else ():
            self._guarded(name, "log", waiting)

    def _guarded(self, name: str, action: str, *values: Any) -> None:
        assert self._outs is not None
        try:
            getattr(self._outs[name], action)(*values)
        except Exception as error:  # whatever a service's client raises
            del self._outs[name]
            self._notes.append(f"{name}: {_said(error)}; no more is logged there")


def _points(event: Any, phase: str) -> Iterator[Point]:
    if isinstance(event, Stepped):
        if not math.isnan(event.loss):  # all of its steps were skipped
            yield Point(phase, "loss", event.loss, event.step)
    elif isinstance(event, Evaluated):
        for name, value in _numbers(event.metrics).items():
            yield Point(phase, f"validation/{name}", value, event.step)


def _past(log: Path) -> Iterator[Point]:
    """The same of a log's lines; steps that were taken twice count once, as they were last."""
    found: dict[tuple[str, str, int], Point] = {}
    if log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):  # cut off by a kill
                entry = json.loads(line)
                kind, phase, step = entry["event"], entry["phase"], entry["step"]
                event: Any = None
                if kind == "stepped" and entry["loss"] is not None:
                    event = Stepped(step, entry["points"], entry["loss"], entry["seconds"])
                elif kind == "evaluated":
                    event = Evaluated(step, entry["metrics"], entry["best"])
                for point in _points(event, phase):
                    found[point.phase, point.name, point.step] = point
    yield from sorted(found.values(), key=lambda point: point.step)


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _said(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
