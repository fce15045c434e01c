"""Several processes: one that dies, stops or cannot write ends or stops all."""

import resource
import signal
import threading
import time

import jax
import numpy as np
import pytest
from runs.processes.several_processes import TIMEOUT, alone, ended, logged_values, start, together
from small_runs import arrays, log

from snm.checkpoints.store import Checkpoints, SavingError
from snm.checkpoints.writer import MultiProcessWriter
from snm.distributed.launch import EXIT_PEER_GONE
from snm.distributed.processes import AsyncMin
from snm.errors import STOPPED
from snm.runs.folder import RunFolder

LEEWAY = 60  # for the machine to do so while others use it


def wait_for(run, step, processes):
    """Waits for a checkpoint of that step or a later one."""
    checkpoints = RunFolder(run).checkpoints(2)
    last = time.monotonic() + 600
    while (checkpoints.latest() or 0) < step:
        assert all(process.poll() is None for process in processes), "ended too early"
        assert time.monotonic() < last
        time.sleep(0.02)


@pytest.mark.slow
def test_a_dead_process_ends_the_others_and_the_run_can_continue(data, tmp_path):
    """First process 0 is killed, then process 1 of the run that goes on."""
    run, newest = tmp_path / "run", 0
    for dead in (0, 1):
        processes = start(data, run, "--mesh=data=2", "--epochs=4000", peer_timeout=TIMEOUT)
        wait_for(run, newest + 8, processes)
        processes[dead].send_signal(signal.SIGKILL)
        begun = time.monotonic()
        found = ended([processes[1 - dead]], within=TIMEOUT + LEEWAY)
        took = time.monotonic() - begun
        assert found[0][0] == EXIT_PEER_GONE
        assert "another process of this run is gone" in found[0][1].splitlines()[-1]
        processes[dead].communicate()
        print(f"\nprocess {dead} killed, the other ended after {took:.1f} s")
        before, newest = newest, RunFolder(run).checkpoints(2).latest()
        assert newest >= before + 8
    # On with fewer epochs than asked at first: what the run was told of is done already.
    epochs = -(-newest // 4) + 2
    together(data, run, "--mesh=data=2", f"--epochs={epochs}")
    assert logged_values(run, field="step")[-1] == 4 * epochs
    whole = alone(data, tmp_path / "whole", epochs=epochs)
    assert logged_values(run)[-1] == pytest.approx(whole[0][-1], rel=1e-3)


@pytest.mark.slow
def test_a_stop_request_to_one_process_stops_all(data, tmp_path):
    """First to process 0, then to process 1 of the run that goes on."""
    run, newest = tmp_path / "run", 0
    for asked in (0, 1):
        processes = start(data, run, "--mesh=data=2", "--epochs=4000")
        wait_for(run, newest + 8, processes)
        processes[asked].send_signal(signal.SIGTERM)
        found = ended(processes, within=400)
        before, newest = newest, RunFolder(run).checkpoints(2).latest()
        assert newest >= before + 8
        for status, said in found:
            assert status == STOPPED, said
            assert said.splitlines()[-1].startswith(
                f"snm: error: stopped as asked, with a checkpoint of step {newest}"
            )
    epochs = -(-newest // 4) + 1
    found = together(data, run, "--mesh=data=2", f"--epochs={epochs}")
    whole = alone(data, tmp_path / "whole", epochs=epochs)
    np.testing.assert_allclose(found[0], whole[0], rtol=1e-3)


@pytest.mark.slow
def test_a_folder_in_use_ends_all(data, tmp_path):
    run = tmp_path / "run"
    busy = start(data, run, "--epochs=4000", processes=1)
    try:
        wait_for(run, 4, busy)
        more = start(data, run, "--mesh=data=2", "--epochs=4000", peer_timeout=TIMEOUT)
        found = ended(more, within=400)
    finally:
        busy[0].kill()
        busy[0].communicate()
    assert found[0][0] == 2 and "in use by process" in found[0][1].splitlines()[-1]
    assert found[1][0] == EXIT_PEER_GONE


@pytest.mark.slow
def test_all_processes_skip_a_damaged_checkpoint(data, tmp_path):
    run = tmp_path / "run"
    together(data, run, "--mesh=label=2", "--epochs=2")
    checkpoints = RunFolder(run).checkpoints(2)
    files = [path for path in checkpoints.path(8).rglob("*") if path.is_file()]
    largest = max((path for path in files if path.name != "manifest.json"),
                  key=lambda path: path.stat().st_size)  # fmt: skip
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    found = together(data, run, "--mesh=label=2", "--epochs=3")
    assert any("a damaged checkpoint" in text for text in logged_values(run, "noted", "text"))
    whole = alone(data, tmp_path / "whole", epochs=3)
    assert found[1]["P@1"] == pytest.approx(whole[1]["P@1"], abs=0.3)


def slow(run, never=None):
    """A program whose checkpoints are whole once later steps were taken; one of them never is."""
    return f"""
import re, sys, time
from pathlib import Path
from snm.checkpoints.store import Checkpoints
from snm.cli.main import main

begin, log = Checkpoints.begin, Path({str(run / "log.jsonl")!r})

def slow(self, step, *args):
    end = begin(self, step, *args)

    def waits():
        steps = map(int, re.findall('"step": ([0-9]+)', log.read_text()))
        return step == {never} or step < 160 and max(steps) <= step

    def later():
        last = time.monotonic() + 300
        while waits() and time.monotonic() < last:
            time.sleep(0.05)
        end()

    return later

Checkpoints.begin = slow
main(sys.argv[1:])
"""


ASIDE = ("--mesh=data=2", "--epochs=40", "--checkpoint-every=40")  # of 160 steps


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    together(data, run, *ASIDE)
    return arrays(run)


@pytest.mark.slow
def test_training_continues_while_a_checkpoint_is_written(data, undisturbed, tmp_path):
    run = tmp_path / "run"
    together(data, run, *ASIDE, program=("-c", slow(run)))
    events = log(run)
    names = [(event["event"], event.get("step")) for event in events]
    assert [step for name, step in names if name == "saved"] == [40, 80, 120, 160]
    for begun in (40, 80, 120):  # steps were taken before that one was whole
        before = names[: names.index(("saved", begun))]
        assert any(name == "stepped" and step > begun for name, step in before)
    for mine, other in zip(arrays(run), undisturbed, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.slow
def test_a_process_killed_while_a_checkpoint_is_written(data, undisturbed, tmp_path):
    """Process 0 at that of step 80, then process 1, of the run that goes on, at that of 120."""
    run = tmp_path / "run"
    checkpoints = RunFolder(run).checkpoints(2)
    for dead, whole in ((0, 40), (1, 80)):
        program = ("-c", slow(run, whole + 40))
        processes = start(data, run, *ASIDE, program=program, peer_timeout=TIMEOUT)
        wait_for(run, whole, processes)
        last = time.monotonic() + 300
        partial = checkpoints.path(whole + 40)
        while not partial.is_dir():  # as orbax leaves it; the manifest comes later
            assert time.monotonic() < last
            time.sleep(0.02)
        processes[dead].send_signal(signal.SIGKILL)
        found = ended([processes[1 - dead]], within=TIMEOUT + LEEWAY)
        processes[dead].communicate()
        assert found[0][0] == EXIT_PEER_GONE
        # Where process 0 is left, and all parts are, it may still make that one whole.
        assert checkpoints.latest() in ((whole,) if dead == 0 else (whole, whole + 40))
    together(data, run, *ASIDE)
    for mine, other in zip(arrays(run), undisturbed, strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.slow
def test_a_failed_write_of_one_process_ends_all_with_one_line(data, tmp_path):
    run = tmp_path / "run"
    processes = start(data, run, "--mesh=label=2", "--epochs=4000")
    wait_for(run, 8, processes)
    # Nothing that it writes may grow past a few bytes: the file system says so to it alone.
    resource.prlimit(processes[1].pid, resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
    begun = time.monotonic()
    found = ended(processes, within=400)
    newest = RunFolder(run).checkpoints(2).latest()
    print(f"\nprocess 1 found no room, both ended after {time.monotonic() - begun:.1f} s")
    for status, said in found:
        line = said.splitlines()[-1]
        assert status == 1, said
        assert f"file too large; the checkpoint was not written, and that of step {newest}" in line
    epochs = -(-newest // 4) + 1
    together(data, run, "--mesh=label=2", f"--epochs={epochs}")
    assert logged_values(run, field="step")[-1] == 4 * epochs


def test_the_status_of_a_write_arrives_one_exchange_later(tmp_path, monkeypatch):
    """With one process, whose status is the minimum."""
    gate = threading.Event()
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    begin = Checkpoints.begin

    def held(self, *args):
        end = begin(self, *args)
        return lambda: (gate.wait(60), end())

    monkeypatch.setattr(Checkpoints, "begin", held)
    state = {"rows": jax.numpy.arange(1000.0)}
    with MultiProcessWriter(checkpoints, in_background=True) as writer:
        writer.save(1, state, {}, None)
        assert [writer.written() for _ in range(3)] == [[], [], []]
        assert checkpoints.latest() is None
        gate.set()
        writer.wait()
        assert writer.written() == [1]
        assert checkpoints.latest() == 1
        # The result of the last write does not count for the next one.
        gate.clear()
        writer.save(2, state, {}, None)
        assert [writer.written() for _ in range(3)] == [[], [], []]
        gate.set()


def test_an_error_of_another_process_is_raised_here(tmp_path, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(Checkpoints, "begin", lambda self, *args: lambda: gate.wait(60))
    writer = MultiProcessWriter(Checkpoints(tmp_path / "checkpoints"), in_background=True)
    writer.save(7, {}, {}, None)
    monkeypatch.setattr(AsyncMin, "__call__", lambda self, mine: 0)  # the first of REASONS
    with pytest.raises(SavingError, match=r"7: no space left on device; .*there is none before"):
        writer.wait()
    writer.close()  # does not wait for the stuck thread
    assert not gate.is_set()
    gate.set()
