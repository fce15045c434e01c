"""Tests `--log-to`: each number is logged once, and a failing service does not end the run."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest
import tiny
from command_line import call, refused
from small_runs import log, notes

from snm.config.settings import config_text
from snm.errors import InputError, StoppedError
from snm.runs.events import Evaluated, Finished, Noted, Started, Stepped
from snm.runs.folder import RunFolder, write_json
from snm.runs.log import trackers
from snm.runs.log.event_log import EventLog
from snm.runs.log.trackers import log_to_trackers


class Recorder:
    """A service that records what is logged to it."""

    def __init__(self, folder, about, known):
        self.id, self.known, self.about = known or "run-1", known, about
        self.heard, self.end = [], None
        _made.append(self)

    def log(self, points):
        self.heard += points

    def finish(self, metrics, status):
        self.end = (metrics, status)


_made: list[Recorder] = []


@pytest.fixture
def service(monkeypatch):
    """Registers the recorder under the name of a standard-library package, which is installed."""
    _made.clear()
    monkeypatch.setitem(trackers.TRACKERS, "json", Recorder)
    monkeypatch.setattr(trackers, "_SEND_INTERVAL", 0.0)
    return _made


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "run"
    place.mkdir()
    (place / "config.toml").write_text(config_text(tiny.CONFIG))
    facts = {"data": "somewhere", "sha256": "0" * 64, "num_features": 30, "num_labels": 20}
    write_json(place / "run.json", {**facts, "warm_start": None})
    return place


def logged(folder, events, phase="train"):
    """Yields events as a run does, after writing them to the log."""
    with EventLog(folder, phase, 0) as log:
        for event in events:
            if not isinstance(event, Started | Finished):
                log.write(event)
            yield event


STEPS = [Stepped(2, 32, 1.5, 0.1), Stepped(4, 32, 1.25, 0.1)]
END = Finished({"metrics": {"P@1": 60.0, "points": 20}})


def test_a_service_receives_losses_and_metrics(service, folder):
    looked = Evaluated(4, {"points": 20, "P@1": 50.0, "R@1": float("nan")}, True)
    events = [Started("train", 0, 4, 4, 60), *STEPS, looked, Stepped(6, 32, float("nan"), 0.1), END]
    assert list(log_to_trackers(logged(folder, events), ["json"], folder)) == events
    (heard,) = service
    assert heard.heard == [
        ("train", "loss", 1.5, 2),
        ("train", "loss", 1.25, 4),
        ("train", "validation/P@1", 50.0, 4),
    ]
    assert heard.end == ({"P@1": 60.0, "points": 20.0}, "done")
    assert heard.about["dim"] == tiny.CONFIG.dim and heard.about["data"] == "somewhere"
    sent = {"train/loss": 4, "train/validation/P@1": 4}
    assert json.loads((folder / "trackers.json").read_text()) == {
        "json": {"id": "run-1", "sent": sent}
    }


def test_a_continued_run_logs_each_step_once(service, folder):
    def killed():
        yield from logged(folder, [Started("train", 0, 8, 4, 60), *STEPS])
        raise StoppedError(2)

    with pytest.raises(StoppedError):
        list(log_to_trackers(killed(), ["json"], folder))
    # Its checkpoint was of step 2: step 4 is taken again.
    again = [Started("train", 2, 8, 4, 60), STEPS[1], Stepped(6, 32, 1.0, 0.1)]
    member = [Started("member-2", 0, 8, 4, 60), Stepped(2, 32, 1.75, 0.1), END]
    list(log_to_trackers(logged(folder, again + member), ["json"], folder))
    first, second = service
    assert first.end == ({}, "stopped") and second.known == "run-1"
    assert [(p.phase, p.step) for p in first.heard] == [("train", 2), ("train", 4)]
    assert [(p.phase, p.step) for p in second.heard] == [("train", 6), ("member-2", 2)]


def test_a_continued_run_logs_what_did_not_arrive(service, folder, monkeypatch):
    """A failed request and a kill between two requests each leave numbers in the log alone."""

    def broken(self, points):
        raise ConnectionError("no route to host")

    class Killed(BaseException):
        pass

    def killed(*steps):
        yield from logged(folder, [Started("train", 0, 12, 4, 60), *steps])
        raise Killed

    more = [Stepped(step, 32, 1.0, 0.1) for step in (6, 8, 10)]
    with pytest.raises(Killed):
        list(log_to_trackers(killed(STEPS[0]), ["json"], folder))
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "log", broken)
        with pytest.raises(Killed):
            list(log_to_trackers(killed(STEPS[1]), ["json"], folder))
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(trackers, "_SEND_INTERVAL", 60.0)
        patch.setattr(trackers._Services, "finish", lambda *_: None)  # as after SIGKILL
        list(log_to_trackers(killed(more[0]), ["json"], folder))
    list(
        log_to_trackers(
            logged(folder, [Started("train", 4, 12, 4, 60), *more, END]), ["json"], folder
        )
    )
    heard = [[p.step for p in one.heard] for one in service]
    assert heard == [[2], [], [4], [6, 8, 10]]


def test_a_file_of_other_content_is_refused(service, folder):
    list(logged(folder, STEPS))
    for wrong in (
        [],
        {"json": 3},
        {"json": "run-0"},
        {"json": {"id": "run-0"}},
        {"json": {"id": "x", "sent": []}},
    ):
        write_json(folder / "trackers.json", wrong)
        with pytest.raises(InputError, match="no ids of runs by service"):
            list(log_to_trackers([Started("train", 0, 4, 4, 60)], ["json"], folder))


def test_a_service_that_is_added_later_receives_earlier_numbers(service, folder):
    list(logged(folder, [*STEPS, Evaluated(4, {"P@1": 50.0}, True)]))
    with (folder / "log.jsonl").open("a") as log:
        log.write('{"event": "stepped", "ste')  # a kill in the middle of a line
    list(log_to_trackers([END], ["json"], folder))  # of a run that is done there is only the end
    (heard,) = service
    assert [(p.name, p.step) for p in heard.heard] == [
        ("loss", 2), ("loss", 4), ("validation/P@1", 4),
    ]  # fmt: skip


def test_earlier_numbers_are_kept_until_they_are_sent(service, folder):
    list(logged(folder, STEPS))
    services = trackers._Services(["json"], RunFolder(folder))
    assert [point.step for point in services._past] == [2, 4]
    services.open()
    assert [point.step for point in service[0].heard] == [2, 4]
    assert services._past == []


def test_a_failing_service_is_reported_once_and_dropped(service, folder, monkeypatch):
    def broken(self, points):
        if points:
            raise ConnectionError("no route to host\nand more")

    monkeypatch.setattr(Recorder, "log", broken)
    seen = list(log_to_trackers([Started("train", 0, 4, 4, 60), *STEPS, END], ["json"], folder))
    assert notes(seen) == ["json: no route to host; no more is logged there"]
    assert [event for event in seen if not isinstance(event, Noted)][1:] == [*STEPS, END]


def test_a_service_that_fails_at_the_start_is_an_error(service, folder, monkeypatch):
    def closed(*_):
        raise RuntimeError("no key")

    monkeypatch.setitem(trackers.TRACKERS, "json", closed)
    with pytest.raises(InputError, match=r"^log_to json: found no key"):
        list(log_to_trackers([Started("train", 0, 4, 4, 60)], ["json"], folder))


def test_a_missing_package_is_an_error_before_anything_is_written(tmp_path, capsys, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "wandb" else real(n))
    data, run = tiny.write(tmp_path / "data"), tmp_path / "run"
    said = refused(capsys, "train", data, "--run-dir", run, "--log-to", "wandb")
    assert said == (
        "--log-to wandb: found its package is not installed, "
        "expected pip install -e '.[wandb]' -c constraints.txt"
    )
    assert not run.exists()
    with pytest.raises(InputError, match="no such service"):
        log_to_trackers([], ["comet"], run)


# -- the packages themselves, offline --------------------------------------------------------


def losses(run):
    return {line["step"]: line["loss"] for line in log(run) if line["event"] == "stepped"}


def trained_twice(tmp_path, name):
    """An epoch, then two more of the same run."""
    data, run = tiny.write(tmp_path / "data"), tmp_path / "run"
    words = ("train", data, "--run-dir", run, *tiny.FLAGS, "--validation-fraction=0.2")
    for epochs in (1, 3):
        call(*words, f"--epochs={epochs}", "--log-to", name)
    return run


@pytest.mark.filterwarnings("ignore")
def test_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="the extra `mlflow` is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    run = trained_twice(tmp_path, "mlflow")
    client = mlflow.MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("snm").experiment_id])
    history = client.get_metric_history(found.info.run_id, "train/loss")
    assert {entry.step: entry.value for entry in history} == losses(run)
    assert len(history) == len(losses(run)) == 6
    result = json.loads((run / "result.json").read_text())
    assert found.data.metrics["test/P_at_1"] == result["metrics"]["P@1"]
    assert "train/validation/P_at_1" in found.data.metrics
    assert found.data.params["dim"] == "8" and found.info.status == "FINISHED"


@pytest.mark.filterwarnings("ignore")
def test_wandb(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = trained_twice(tmp_path, "wandb")
    files = sorted((run / "wandb").glob("offline-run-*/*.wandb"))
    id = json.loads((run / "trackers.json").read_text())["wandb"]["id"]
    assert [file.name for file in files] == [f"run-{id}.wandb"] * 2  # one id, two starts
    for file in files:
        assert b"train/loss" in file.read_bytes()
    assert b"test/P@1" in files[-1].read_bytes()


def test_wandb_without_a_key(tmp_path):
    """Runs in a separate process, because wandb keeps its first settings."""
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    data, run = tiny.write(tmp_path / "data"), tmp_path / "run"
    env = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    words = ["train", data, "--run-dir", run, *tiny.FLAGS, "--log-to", "wandb"]
    done = subprocess.run([sys.executable, "-m", "snm", *map(str, words)], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          env={**env, "HOME": str(tmp_path)})  # fmt: skip
    said = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and "`wandb login`" in said
    assert said.startswith("snm: error: --log-to wandb: found No API key"), done.stderr
