"""Kills a run with SIGKILL at random times; the same command must end with the same bits."""

import json
import signal
import time

import numpy as np
import pytest
import tiny
from runs.faults.faulty_runs import command
from small_runs import arrays, same

from snm.runs.folder import RunFolder

KILLS = 8  # or up to twice as many, until one met a checkpoint that was being written
EPOCHS = 400  # a checkpoint each: much of the time goes to writing them
WINDOW = (2.0, 5.0)  # seconds from the start of a process: the imports, compiling, some steps


def start(data, run, *flags):
    return command(data, run, f"--epochs={EPOCHS}", *flags)


@pytest.mark.slow
def test_kills_lose_nothing(tmp_path):
    """Half of the kills are at random times, half shortly after a new checkpoint."""
    data = tiny.write(tmp_path / "data")
    with start(data, tmp_path / "whole", "--checkpoint-every=1000000") as process:
        assert process.wait() == 0, process.stderr.read()
    rng = np.random.default_rng(6)
    run, met = tmp_path / "run", {"start": 0, "steps": 0, "checkpoint": 0}
    for number in range(2 * KILLS):
        checkpoints = RunFolder(run).checkpoints(2)
        before = checkpoints.latest() or 0
        with start(data, run) as process:
            if number % 2:
                while (checkpoints.latest() or 0) == before and process.poll() is None:
                    time.sleep(0.005)
                time.sleep(rng.uniform(0, 0.1))
            else:
                time.sleep(rng.uniform(*WINDOW))
            assert process.poll() in (None, 0)
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        unfinished = [
            path
            for path in (run / "checkpoints").glob("*")
            if not (path / "manifest.json").exists()
        ]
        after = checkpoints.latest() or 0
        met["checkpoint" if unfinished else "steps" if after > before else "start"] += 1
        assert after >= before, "a checkpoint was lost"
        assert not (run / "result.json").exists(), "finished before all kills"
        if number + 1 >= KILLS and met["checkpoint"]:
            break
    with start(data, run) as process:
        assert process.wait() == 0, process.stderr.read()
    print(f"\nkills: {met}")
    assert met["checkpoint"], "no kill met a checkpoint"
    assert same(arrays(tmp_path / "whole"), arrays(run))
    results = [
        json.loads((tmp_path / name / "result.json").read_text()) for name in ("whole", "run")
    ]
    assert results[0]["metrics"] == results[1]["metrics"]
