"""Runs on the command line that faults end, and the files of their checkpoints."""

import os
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
import tiny

import snm
from snm.cli.main import main
from snm.model.model import abstract_state
from snm.runs.folder import RunFolder


def command(data, run, *flags):
    """Starts the command line in a process, with the compilation cache of the session."""
    words = ["train", str(data), "--run-dir", str(run), *tiny.FLAGS, *flags]
    return subprocess.Popen(
        [sys.executable, "-m", "snm", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_NUM_CPU_DEVICES": "4"},
    )


def refused(capsys, words):
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    said = capsys.readouterr().err
    assert said.startswith("snm: error: ") and said.count("\n") == 1, said
    return stop.value.code, said.removeprefix("snm: error: ").rstrip("\n")


def until(run, epochs, process):
    while (RunFolder(run).checkpoints(2).latest() or 0) < epochs * 4:
        time.sleep(0.02)
        assert process.poll() is None, process.stderr.read()


def last_good(run, whole):
    """No incomplete checkpoint remains, and that of step 4 equals the reference run's."""
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["4"]
    model = snm.load(run).model
    kept = RunFolder(run).checkpoints(2).load(4, abstract_state(model))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept))
