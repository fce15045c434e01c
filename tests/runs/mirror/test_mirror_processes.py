"""Real processes without a common disk, with the run in a store; the tests are slow."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tiny
from runs.processes.several_processes import PATIENCE, TIMEOUT, free_port
from small_runs import arrays

from snm.runs.folder import RunFolder

EPOCHS = 24
TESTS = Path(__file__).parents[2]


def start(data, tmp_path, run, peer_timeout=PATIENCE):
    """Two processes of two devices each; each has a cache folder of its own."""
    port, found = free_port(), []
    for number in range(2):
        words = ["train", str(data), "--run-dir", str(run), *tiny.FLAGS, f"--epochs={EPOCHS}",
                 "--mesh=data=2,label=2", f"--peer-timeout={peer_timeout}", "--num-processes=2",
                 f"--coordinator=127.0.0.1:{port}", f"--process-id={number}"]  # fmt: skip
        environment = {
            **os.environ,
            "JAX_NUM_CPU_DEVICES": "2",
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
            "FOLDER_STORE": str(tmp_path / "store"),
            "SNM_CACHE": str(tmp_path / f"disk-{number}"),
        }
        found.append(
            subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("folder_store.py")), *words],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return found


def ended(processes):
    try:
        found = [process.communicate(timeout=600)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], found


def stored(tmp_path):
    """The newest step of the checkpoints in the newest snapshot; 0 if there is none."""
    names = sorted((tmp_path / "store" / "bucket" / "run" / "snapshots").glob("*.json"))
    try:
        files = json.loads(names[-1].read_text())["files"]
    except (IndexError, OSError, ValueError):
        return 0
    names = (name.split("/") for name in files)
    return max((int(name[1]) for name in names if name[0] == "checkpoints"), default=0)


def bring():
    """The run as a reader has it."""
    from snm.stores.copies import local_copy

    return local_copy("folder://bucket/run")


@pytest.mark.slow
def test_two_hosts_lose_their_disks_and_go_on_to_the_same_bits(data, tmp_path, monkeypatch):
    """First one of them is killed, then one of those that go on is asked to stop."""
    statuses, said = ended(start(data, tmp_path, tmp_path / "whole"))  # on one disk
    assert statuses == [0, 0], said
    for how, wanted in ((signal.SIGKILL, [69, -signal.SIGKILL]), (signal.SIGTERM, [75, 75])):
        before = stored(tmp_path)
        timeout = TIMEOUT if how == signal.SIGKILL else PATIENCE
        processes = start(data, tmp_path, "folder://bucket/run", timeout)
        until = time.monotonic() + 600
        while stored(tmp_path) <= before and time.monotonic() < until:
            time.sleep(0.02)
        assert stored(tmp_path) > before
        processes[1].send_signal(how)
        statuses, said = ended(processes)
        assert statuses == wanted, said
        for number in range(2):
            shutil.rmtree(tmp_path / f"disk-{number}")
    statuses, said = ended(start(data, tmp_path, "folder://bucket/run"))
    assert statuses == [0, 0], said
    monkeypatch.setenv("FOLDER_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("SNM_CACHE", str(tmp_path / "reader"))
    from runs.mirror import folder_store  # noqa: F401 (makes the scheme known here)

    found, expected = bring(), tmp_path / "whole"
    for mine, other in zip(arrays(found), arrays(expected), strict=True):
        np.testing.assert_array_equal(mine, other)
    results = [RunFolder(run).read_result()["metrics"] for run in (found, expected)]
    assert results[0] == results[1]
