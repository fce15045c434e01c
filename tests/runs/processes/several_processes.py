"""Trainings by several processes of this machine, which connect over the loopback interface."""

import contextlib
import dataclasses
import json
import os
import random
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import tiny
from small_runs import log

from snm.trainer.training import train

TIMEOUT = 15  # seconds of silence after which a process counts as dead, where one is killed
PATIENCE = 120  # the same where none is: a busy machine may let one wait


def free_port():
    """A port below those that the system gives to clients, so that it stays free for a while."""
    while True:
        with socket.socket() as place, contextlib.suppress(OSError):
            place.bind(("127.0.0.1", random.randrange(20_000, 32_000)))
            return place.getsockname()[1]


def start(
    data,
    run,
    *flags,
    processes=2,
    devices=1,
    launcher=None,
    program=("-m", "snm"),
    own=None,
    peer_timeout=PATIENCE,
):
    """Starts the processes of a run; `launcher` returns additions to their environment.

    `own` has the flags of single processes by their numbers.
    """
    port = free_port()
    found = []
    for number in range(processes):
        words = [
            "train",
            str(data),
            "--run-dir",
            str(run),
            *tiny.FLAGS,
            f"--peer-timeout={peer_timeout}",
        ]
        given = {} if launcher is None else launcher(number, processes)
        if launcher is None:
            words += [f"--coordinator=127.0.0.1:{port}", f"--num-processes={processes}",
                      f"--process-id={number}"]  # fmt: skip
        environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), **given}
        found.append(
            subprocess.Popen(
                [sys.executable, *program, *words, *flags, *(own or {}).get(number, ())],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return found


def ended(processes, within=900):
    """The exit statuses and outputs of processes; fails if one hangs, after killing it."""
    last = time.monotonic() + within
    found = []
    try:
        for process in processes:
            _, said = process.communicate(timeout=max(last - time.monotonic(), 1))
            found.append((process.returncode, said))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return found


def together(data, run, *flags, **options):
    for status, said in ended(start(data, run, *flags, **options)):
        assert status == 0, said
    return logged_values(run), json.loads((run / "result.json").read_text())["metrics"]


def logged_values(run, event="stepped", field="loss"):
    """A field of the events of one kind, by member: the lines of those side by side alternate."""
    lines = log(run)
    lines.sort(key=lambda line: line["phase"])
    return [line[field] for line in lines if line["event"] == event]


def alone(data, run, **changes):
    result = train(data, dataclasses.replace(tiny.CONFIG, **changes), run)
    return logged_values(run), result["metrics"]


def of_one(tiny_run):
    """What `alone` returns of `tiny.CONFIG`: from the run that all tests share."""
    run = tiny_run / "run"
    return logged_values(run), json.loads((run / "result.json").read_text())["metrics"]


def assert_same(found, expected):
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    for name, value in expected[1].items():
        assert found[1][name] == pytest.approx(value, abs=0.3), name
