"""A comparison that is asked to stop leaves no worker, and what can go on."""

import dataclasses
import signal
import subprocess
import sys
import time

import pytest
from compare.campaigns import small_arms

import snm
from snm.compare.campaign import Campaign
from snm.compare.jobs import Job, read_result, run_jobs
from snm.compare.records import write_record
from snm.config.resolve import resolve
from snm.errors import STOPPED, StoppedError
from snm.runs.folder import RunFolder
from snm.system.files.locks import locked


def test_a_comparison_that_is_asked_to_stop_ends_its_workers(dataset, tmp_path, monkeypatch):
    workers = []

    def start(*_):
        workers.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
        return workers[-1]

    monkeypatch.setattr("snm.compare.jobs._start", start)
    campaign = Campaign("tiny", dataset, small_arms(), tmp_path, seeds=2, jobs=2)
    with pytest.raises(StoppedError, match=r"as asked, with 0 of 4 runs finished \(equal steps\)$"):
        list(campaign.run(lambda: True))
    assert [worker.returncode for worker in workers] == [-signal.SIGTERM] * 2


def job_of(dataset):
    config = dataclasses.replace(snm.preset("paper"), sampled=8, epochs=2, mined=2)
    return Job("top-2", resolve(config, dataset), "test")


@pytest.mark.parametrize("ends", ["exit 75", "kill -TERM $$"])
def test_a_run_that_was_told_to_stop_has_not_failed(dataset, tmp_path, monkeypatch, ends):
    """Where every process gets the signal, a run may end before the comparison asks it to."""

    def start(*_):
        return subprocess.Popen(["sh", "-c", ends], stdin=subprocess.PIPE)

    monkeypatch.setattr("snm.compare.jobs._start", start)
    job = job_of(dataset)
    *_, last = run_jobs("tiny", tmp_path, [job], 1)
    assert last.stopped and last.left == (("top-2", 2),) and last.done == 0
    assert read_result(tmp_path, job) is None
    campaign = Campaign("tiny", dataset, small_arms(), tmp_path)
    with pytest.raises(StoppedError, match="0 of 2 runs finished"):
        list(campaign.run())


@pytest.mark.parametrize("killed", [False, True])
def test_a_run_that_ends_while_it_is_told_to_stop_leaves_its_result_only(
    dataset, tmp_path, monkeypatch, killed
):
    job = job_of(dataset)
    (tmp_path / job.name).mkdir()
    for suffix in ("stderr", "task.json", "steps", "lock"):
        (tmp_path / f"{job.name}.{suffix}").touch()

    def finish():
        write_record(tmp_path / f"{job.name}.json", {"metrics": {}})

    def start(*_):
        finish()
        return subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    monkeypatch.setattr("snm.compare.jobs._start", start)
    if killed:  # so that nobody cleaned up
        finish()
    states = run_jobs("tiny", tmp_path, [job], 1)
    assert list(states) == [] if killed else next(states).working
    states.close()
    assert [path.name for path in tmp_path.iterdir()] == [f"{job.name}.json"]


def test_only_runs_without_a_checkpoint_are_timed(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr("snm.compare.jobs._start", lambda *_: subprocess.Popen(["true"], stdin=-1))
    first = job_of(dataset)
    second = dataclasses.replace(first, config=dataclasses.replace(first.config, seed=1))
    (tmp_path / second.name / "checkpoints" / "4").mkdir(parents=True)
    for job in (first, second):
        (tmp_path / f"{job.name}.stderr").touch()
    *_, last = run_jobs("tiny", tmp_path, [first, second], 2)
    assert last.done == 2 and [(arm, epochs) for arm, _, epochs in last.durations] == [("top-2", 2)]


@pytest.mark.slow
def test_sigterm_ends_a_comparison_with_checkpoints(folder, tmp_path):
    """As `snm train`: a line and status 75; no worker is left, and each can go on."""
    out, toml = tmp_path / "out", tmp_path / "long.toml"
    toml.write_text("epochs = 1000000\nbatch_size = 16\nsampled = 8\ndim = 8\n")
    words = ["compare", str(folder), "--out", str(out), "--config", str(toml), "--mined", "3",
             "--seeds", "1", "--jobs", "2"]  # fmt: skip
    process = subprocess.Popen([sys.executable, "-m", "snm", *words], text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
    since = time.monotonic()
    while len(list(out.glob("runs/*.steps"))) < 2:
        assert process.poll() is None and time.monotonic() - since < 600
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=300)
    assert process.returncode == STOPPED == 75
    first, last = (line for line in said.splitlines() if line.startswith("snm: "))
    assert first.startswith("snm: SIGTERM: stopping: runs at work write a checkpoint, a peer ")
    assert last == (
        "snm: error: stopped as asked, with 0 of 2 runs finished (equal steps); "
        "the same command goes on from there"
    )
    for path in out.glob("runs/*.lock"):
        with locked(path, "a worker"):  # refused while there is one
            steps = int(path.with_suffix(".steps").read_text().split()[0])
            assert RunFolder(path.with_suffix("")).checkpoints(1).latest() >= steps > 0
    assert not list(out.glob("runs/test-????????????.json"))  # neither result nor failure
