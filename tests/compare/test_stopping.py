"""A comparison that is asked to stop leaves no worker, and what can go on."""

import dataclasses
import signal
import subprocess
import sys
import time

import pytest
import tiny

import snm
from snm.compare.arms import plan_arms
from snm.compare.campaign import Campaign, Plan
from snm.errors import STOPPED, StoppedError
from snm.runs.folder import RunFolder
from snm.system.locks import locked


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("compare") / "tiny")


def test_a_comparison_that_is_asked_to_stop_ends_its_workers(folder, tmp_path, monkeypatch):
    workers = []

    def start(*_):
        workers.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
        return workers[-1]

    monkeypatch.setattr("snm.compare.jobs._start", start)
    base = dataclasses.replace(snm.preset("paper"), sampled=8, epochs=2, mined="all")
    arms = plan_arms(base, mined=(2,), losses=("bowl",))
    plan = Plan("tiny", arms, seeds=2, tune=False, tune_epochs=None, equal_seconds=False, jobs=2)
    campaign = Campaign(plan, snm.load_data(folder), tmp_path, lambda *_: None)
    with pytest.raises(StoppedError, match=r"as asked, with 0 of 4 runs finished \(equal steps\)$"):
        list(campaign.run(lambda: True))
    assert [worker.returncode for worker in workers] == [-signal.SIGTERM] * 2


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
        assert process.poll() is None and time.monotonic() - since < 120
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == STOPPED == 75
    first, last = (line for line in said.splitlines() if line.startswith("snm: "))
    assert first.startswith("snm: SIGTERM: runs finish their step and take a checkpoint; again")
    assert last == (
        "snm: error: stopped as asked, with 0 of 2 runs finished (equal steps); "
        "the same command goes on from there"
    )
    for path in out.glob("runs/*.lock"):
        with locked(path, "a worker"):  # refused while there is one
            steps = int(path.with_suffix(".steps").read_text().split()[0])
            assert RunFolder(path.with_suffix("")).checkpoints(1).latest() >= steps > 0
    assert not list(out.glob("runs/test-????????????.json"))  # neither result nor failure
