"""One process a folder, and signals that end a run."""

import os
import signal
import subprocess
import sys
import time

import pytest
import tiny
from command_line import refused
from runs.faults.faulty_runs import command, until
from small_runs import arrays, config, log, same

import snm
from snm.distributed.dataset import fit_weighting
from snm.errors import STOPPED, InputError, StoppedError
from snm.runs.events import Stepped
from snm.runs.folder import RunFolder
from snm.system.files.locks import LOCK, locked
from snm.system.signals import stop_requested
from snm.trainer import training as trainer


def test_a_folder_in_use_is_refused(folder, data, tmp_path, capsys):
    run = tmp_path / "run"
    events = trainer.training(data, tiny.CONFIG, run)
    next(events)  # under way
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    said = refused(capsys, "train", folder, "--run-dir", run, *tiny.FLAGS)
    assert f"--run-dir {run}: found a folder in use by process {os.getpid()} on " in said
    assert before == {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    events.close()
    snm.train(data, tiny.CONFIG, run)  # free again


def test_a_lock_ends_with_its_process(tmp_path):
    """However the process ends; the lock file that remains does not lock."""
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from snm.system.files.locks import locked\n"
        "with locked(Path(sys.argv[1]), 'x'): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / LOCK)],
                              stdout=subprocess.PIPE)  # fmt: skip
    assert holder.stdout.readline() == b"held\n"
    with (
        pytest.raises(InputError, match=f"in use by process {holder.pid} on"),
        locked(tmp_path / LOCK, "x"),
    ):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with locked(tmp_path / LOCK, "x"):
        assert f"process {os.getpid()} " in (tmp_path / LOCK).read_text()


def test_a_run_that_starts_between_the_check_and_the_lock(data, tmp_path, monkeypatch):
    run = tmp_path / "run"

    def meanwhile(*args):
        if not run.exists():
            run.mkdir()
            (run / "config.toml").write_text("dim = 8\n")
        return fit_weighting(*args)

    monkeypatch.setattr("snm.trainer.run.fit_weighting", meanwhile)
    with pytest.raises(InputError, match="another process began just now"):
        snm.train(data, tiny.CONFIG, run)


@pytest.mark.parametrize("steps", [pytest.param(2, marks=pytest.mark.slow), 3, 12])
def test_a_stopped_and_continued_run_is_the_same_run(data, whole, tmp_path, steps):
    """A stop at any step (3 is within a dispatch, 12 is the last) writes its checkpoint."""
    run, seen = tmp_path / "run", []
    with pytest.raises(StoppedError) as stopped:
        for event in trainer.training(
            data, tiny.CONFIG, run, stop=lambda: bool(seen) and seen[-1] >= steps
        ):
            if isinstance(event, Stepped):
                seen.append(event.step)
    newest = RunFolder(run).checkpoints(2).latest()
    assert stopped.value.step == newest >= steps
    assert not (run / "result.json").exists()
    assert snm.train(data, tiny.CONFIG, run)["metrics"] == whole[1]["metrics"]
    assert same(arrays(run), arrays(whole[0]))


def test_one_true_of_stop_is_enough(data, tmp_path):
    """A `stop` that is true for a moment, such as `queue.pop`, ends the run all the same."""
    asked = iter([False, True])
    with pytest.raises(StoppedError):
        snm.train(data, tiny.CONFIG, tmp_path / "run", stop=lambda: next(asked, False))
    assert not (tmp_path / "run" / "result.json").exists()


def test_signal_handlers_are_unchanged_unless_requested(data, tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    for _ in trainer.training(data, config(epochs=1), tmp_path / "run"):
        assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_requests_a_stop(number):
    told, handler = [], signal.getsignal(number)
    with stop_requested(told.append, lambda: None) as wished:
        assert not wished()
        os.kill(os.getpid(), number)
        deadline = time.monotonic() + 60
        while not told:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert wished() and told == [number]
    assert signal.getsignal(number) == handler


@pytest.mark.parametrize(
    ("second", "told", "expected"),
    [(signal.SIGTERM, "0", b"at 1.1\nsecond\n"), (signal.SIGINT, "1 / 0", b"second\n")],
    ids=["told", "nobody reads what is told"],
)
def test_the_second_signal_ends_a_blocked_main_thread(second, told, expected):
    """Python's handlers would wait for the main thread, here blocked in a join.

    `timeout` sends the same signal twice at once, which counts as one; another kind is a second.
    The process has a clock of its own, which says when it is looked at.
    """
    code = (
        "import ctypes, types; from snm.system import signals\n"
        "from snm.system.signals import stop_requested\n"
        "def say(word): print(word, flush=True)\n"
        "times = [0.0, 0.9, 1.1]\n"
        "def monotonic(): now = times.pop(0); say(f'at {now}'); return now\n"
        "signals.time = types.SimpleNamespace(monotonic=monotonic)\n"
        f"with stop_requested(lambda n: (say('first'), {told}), lambda: say('second')):\n"
        "    print('ready', flush=True)\n"
        "    libc = ctypes.CDLL(None)\n"
        "    [libc.sleep(30) for _ in iter(int, 1)]"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert [process.stdout.readline() for _ in range(2)] == [b"at 0.0\n", b"first\n"]
        if second == signal.SIGTERM:
            process.send_signal(second)
            assert process.stdout.readline() == b"at 0.9\n"
        process.send_signal(second)
        assert process.wait(60) == 128 + second
        assert process.stdout.read() == expected


@pytest.mark.parametrize(
    ("words", "function", "again"),
    [
        (
            "train synthetic --run-dir r",
            "snm.cli.train.verb.run_training",
            "goes on from the last checkpoint, if there is one",
        ),
        ("compare synthetic --out o", "snm.compare.cli._run", "keeps what is done, and goes on"),
    ],
)
def test_sigterm_before_the_first_step(words, function, again):
    """While compiled code reads the data, say: at once, with a line and the status of a stop."""
    module, _, name = function.rpartition(".")
    code = (
        f"import ctypes, sys; import {module} as module; from snm.cli.main import main\n"
        "def blocked(command):\n"
        "    print('ready', flush=True)\n"
        "    ctypes.CDLL(None).sleep(30)\n"
        f"module.{name} = blocked; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, *words.split()]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == STOPPED
        assert process.stderr.read() == f"snm: SIGTERM: stopped; the same command {again}\n"


@pytest.mark.slow
def test_sigterm_on_the_command_line(folder, tmp_path):
    """Ends with status 75 and a checkpoint; the same command continues from it."""
    run = tmp_path / "run"
    long = "--epochs=100000"
    with command(folder, run, long) as process:
        until(run, 2, process)
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
        assert process.wait(60) == STOPPED == 75
    first, last = (line for line in said.splitlines() if line.startswith("snm: "))
    assert first.startswith("snm: SIGTERM: finishing the step and taking a checkpoint; again")
    newest = RunFolder(run).checkpoints(2).latest()
    assert last == (
        f"snm: error: stopped as asked, with a checkpoint of step {newest}; "
        "the same command goes on from there"
    )
    assert max(line["step"] for line in log(run) if line["event"] == "stepped") == newest
