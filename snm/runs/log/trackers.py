"""Logs a run to Weights & Biases and MLflow, through their own packages.

`log_to_trackers` yields the events of a run unchanged and logs the numbers of `log.jsonl` to the
services. A run that resumes after an interruption also resumes in the service, under the same id
and with each step once. A service first receives the numbers of `log.jsonl` that it lacks: all of
them if it is added in the middle of a run, and those that an interruption kept from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from snm.config.settings import read_config
from snm.errors import InputError, StoppedError
from snm.runs.events import Event, Finished, Noted, Started
from snm.runs.folder import RunFolder, read_json, write_json
from snm.runs.log.entries import finite_numbers, get_scalars, make_entry, read_entries
from snm.text import first_line, pip_install

__all__ = ["TRACKERS", "Point", "Tracker", "check_trackers", "log_to_trackers"]

_SEND_INTERVAL = 2.0  # seconds between two requests to a service, at least
_PROJECT = "snm"
_EXPECTED = {
    "wandb": "a service that answers (`wandb login`; or WANDB_MODE=offline)",
    "mlflow": "a service that answers (MLFLOW_TRACKING_URI)",
}


class Point(NamedTuple):
    """A logged number, for example `train/loss` at step 40."""

    phase: str
    name: str
    value: float
    step: int


class Tracker(Protocol):
    """One run in a tracking service.

    Attributes:
      id: the service's id of the run, to continue it later.
    """

    id: str

    def log(self, points: list[Point]) -> None:
        """Logs numbers."""

    def finish(self, metrics: dict[str, float], status: str) -> None:
        """Ends the run with the metrics on the test points; status: `done`, `stopped`, `failed`."""


class _WandB:
    """A Weights & Biases run; honours WANDB_PROJECT, WANDB_NAME, WANDB_MODE and so on."""

    def __init__(self, folder: Path, settings: dict[str, Any], run_id: str | None):
        import wandb

        self.id = run_id or secrets.token_hex(8)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=os.environ.get("WANDB_NAME", folder.resolve().name),
            id=self.id,
            resume="allow",
            dir=folder,
            config=settings,
            settings=wandb.Settings(silent=True),
        )
        self._defined: set[str] = set()

    def log(self, points: list[Point]) -> None:
        """Logs numbers; each phase has its own step axis."""
        for point in points:
            if point.phase not in self._defined:
                self._run.define_metric(f"{point.phase}/*", step_metric=f"{point.phase}/step")
                self._defined.add(point.phase)
            values = {point.name: point.value, "step": point.step}
            self._run.log({f"{point.phase}/{name}": value for name, value in values.items()})

    def finish(self, metrics: dict[str, float], status: str) -> None:
        """Ends the run; the metrics become its summary."""
        self._run.summary.update({f"test/{name}": value for name, value in metrics.items()})
        self._run.finish(exit_code=0 if status == "done" else 1)


class _MLflow:
    """An MLflow run; honours MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME."""

    def __init__(self, folder: Path, settings: dict[str, Any], run_id: str | None):
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = MlflowClient()
        if run_id is None:
            name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _PROJECT)
            found = self._client.get_experiment_by_name(name)
            experiment_id = found.experiment_id if found else self._client.create_experiment(name)
            run = self._client.create_run(experiment_id, run_name=folder.resolve().name)
            self.id = run.info.run_id
            params = [Param(key, str(value)) for key, value in settings.items()]
            self._client.log_batch(self.id, params=params)
        else:
            self.id = run_id
            self._client.update_run(run_id, status="RUNNING")

    def log(self, points: list[Point]) -> None:
        """Logs numbers in batches, because the client waits for each answer."""
        self._send({(f"{p.phase}/{p.name}", p.step): p.value for p in points})

    def finish(self, metrics: dict[str, float], status: str) -> None:
        """Ends the run; the metrics are logged at step 0."""
        self._send({(f"test/{name}", 0): value for name, value in metrics.items()})
        statuses = {"done": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
        self._client.set_terminated(self.id, statuses[status])

    def _send(self, values: dict[tuple[str, int], float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        # MLflow allows no @ in names.
        metrics = [Metric(name.replace("@", "_at_"), value, now, step)
                   for (name, step), value in values.items()]  # fmt: skip
        for first in range(0, len(metrics), 1000):  # MLflow's limit per request
            self._client.log_batch(self.id, metrics=metrics[first : first + 1000])


TRACKERS: dict[str, Any] = {"wandb": _WandB, "mlflow": _MLflow}
"""Name of the service, which is also that of its package and of our extra -> its `Tracker`."""


def check_trackers(names: Iterable[str]) -> None:
    """Checks that the packages of the services are installed, without importing them.

    Raises:
      InputError: a service is unknown, or its package is not installed.
    """
    for name in names:
        if name not in TRACKERS:
            raise InputError(f"--log-to {name}", "no such service", " or ".join(TRACKERS))
        if importlib.util.find_spec(name) is None:
            found, expected = "its package is not installed", pip_install(name)
            raise InputError(f"--log-to {name}", found, expected)


def log_to_trackers(
    events: Iterable[Event], names: Iterable[str], run_dir: str | Path
) -> Iterator[Event]:
    """Yields the events of `snm.training` unchanged, and logs them to services.

    A service that fails during the run is reported once and not used again, so that it does not end
    the run. All numbers are in `log.jsonl`.

    Args:
      events: from `snm.training`.
      names: names of `TRACKERS`.
      run_dir: the folder of the run; the services' ids, and the last steps that they received, are
        kept in its `trackers.json`.

    Raises:
      InputError: a package is not installed, or a service cannot be reached at the start.
    """
    names = list(dict.fromkeys(names))
    check_trackers(names)
    if not names:
        return iter(events)
    return _log_to_services(events, _Services(names, RunFolder(Path(run_dir))))


def _log_to_services(events: Iterable[Event], services: _Services) -> Iterator[Event]:
    phase, metrics, status = "train", {}, "failed"
    try:
        for event in events:
            if isinstance(event, Started | Finished):  # earlier events precede the run's checks
                services.open()
            if isinstance(event, Started):
                phase = event.phase
            elif isinstance(event, Finished):
                metrics, status = finite_numbers(event.result["metrics"]), "done"
            services.add(_make_points(make_entry(event), phase))
            for text in services.pop_notes():
                yield Noted(getattr(event, "step", 0), text)
            yield event
    except StoppedError:
        status = "stopped"
        raise
    finally:
        services.finish(metrics, status)
    for text in services.pop_notes():
        yield Noted(0, text)


class _Services:
    """The services that a run is logged to, and the numbers that are not sent yet."""

    def __init__(self, names: list[str], folder: RunFolder):
        self._names, self._folder = names, folder
        # Read now, before the run continues and appends to the log.
        entries = read_entries(folder.log, "stepped", "evaluated", "probed")
        self._past = [point for entry in entries for point in _make_points(entry, entry["phase"])]
        self._records: dict[str, dict[str, Any]] = {}
        self._trackers: dict[str, Tracker] | None = None
        self._pending: list[Point] = []
        self._notes: list[str] = []
        self._last_sent = time.monotonic()

    def open(self) -> None:
        """Opens a run in each service, once, and sends the numbers of the log that it lacks."""
        if self._trackers is not None:
            return
        self._trackers = {}
        self._records = self._read_records()
        settings = dataclasses.asdict(read_config(self._folder.checked(self._folder.config)))
        settings = {**settings, "data": self._folder.read_origin().data}
        for name in self._names:
            record = self._records.get(name, {"id": None, "sent": {}})
            try:
                tracker = TRACKERS[name](self._folder.path, settings, record["id"])
                if missing := _select_new(record["sent"], self._past):
                    tracker.log(missing)
            except Exception as error:  # clients raise errors of any type
                found = first_line(error)
                expected = _EXPECTED.get(name, "a service that answers")
                raise InputError(f"--log-to {name}", found, expected) from error
            self._trackers[name] = tracker
            self._records[name] = {"id": tracker.id, "sent": record["sent"] | _last_steps(missing)}
            write_json(self._record_path, self._records)  # before the next service, which may fail
        self._past = []  # takes memory after a long run

    def add(self, points: Iterable[Point]) -> None:
        """Adds numbers to send, and sends them every few seconds."""
        self._pending += points
        if time.monotonic() - self._last_sent > _SEND_INTERVAL:
            self._send()

    def pop_notes(self) -> list[str]:
        """Returns and removes the messages for the user."""
        notes, self._notes = self._notes, []
        return notes

    def finish(self, metrics: dict[str, float], status: str) -> None:
        """Sends the remaining numbers, and ends the runs."""
        self._send()
        for name in list(self._trackers or {}):
            self._call(name, "finish", metrics, status)

    def _send(self) -> None:
        """Sends to each service the numbers that it does not have yet."""
        pending, self._pending, self._last_sent = self._pending, [], time.monotonic()
        any_sent = False
        for name in list(self._trackers or {}):
            sent = self._records[name]["sent"]
            points = _select_new(sent, pending)
            if points and self._call(name, "log", points):
                sent.update(_last_steps(points))
                any_sent = True
        if any_sent:
            with contextlib.suppress(OSError):  # a resumed run then sends some again
                write_json(self._record_path, self._records)

    def _call(self, name: str, method: str, *values: Any) -> bool:
        """Calls a method of a tracker; if it fails, notes the error and drops the tracker."""
        assert self._trackers is not None
        try:
            getattr(self._trackers[name], method)(*values)
        except Exception as error:  # clients raise errors of any type
            del self._trackers[name]
            self._notes.append(f"{name}: {first_line(error)}; no more is logged there")
            return False
        return True

    @property
    def _record_path(self) -> Path:
        return self._folder.path / "trackers.json"

    def _read_records(self) -> dict[str, dict[str, Any]]:
        """The id of the run in each service, and the last step of each number that it received."""
        found = read_json(self._record_path) if self._record_path.exists() else {}
        try:
            return {
                name: {
                    "id": str(record["id"]),
                    "sent": {key: int(step) for key, step in record["sent"].items()},
                }
                for name, record in found.items()
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = "no ids of runs by service", "what `snm train` wrote"
            raise InputError(str(self._record_path), *what) from error


def _select_new(sent: dict[str, int], points: Iterable[Point]) -> list[Point]:
    """The numbers of steps after the last ones that were sent."""
    return [point for point in points if point.step > sent.get(f"{point.phase}/{point.name}", -1)]


def _last_steps(points: Iterable[Point]) -> dict[str, int]:
    """The last step of each number, by phase and name."""
    return {f"{point.phase}/{point.name}": point.step for point in points}


def _make_points(entry: dict[str, Any], phase: str) -> Iterator[Point]:
    """The numbers of an entry of the log."""
    for name, value in get_scalars(entry).items():
        yield Point(phase, name, value, entry["step"])
