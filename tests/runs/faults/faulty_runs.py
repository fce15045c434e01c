"""Runs on the command line that faults end, and the files of their checkpoints."""

import contextlib
import os
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
import tiny

import snm
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


@contextlib.contextmanager
def small_disk(folder, size):
    """A file system of so many MiB in a new folder; without the right to mount, it skips."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", str(folder)], check=False,
        capture_output=True,
    )  # fmt: skip
    if mounted.returncode:
        pytest.skip("mounting is not permitted")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def until(run, epochs, process):
    while (RunFolder(run).checkpoints(2).latest() or 0) < epochs * 4:
        time.sleep(0.02)
        assert process.poll() is None, process.stderr.read()


def last_good(run):
    """No incomplete checkpoint remains, and that of step 4 is finite."""
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["4"]
    model = snm.load(run).model
    kept = RunFolder(run).checkpoints(2).load(4, abstract_state(model))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept))
