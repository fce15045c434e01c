"""What `snm train` shows while it trains."""

import contextlib
import dataclasses
import os
import pty
import shutil
import subprocess
import sys
import types

import pytest
import tiny
from command_line import call, refused
from small_runs import notes

import snm
from snm.cli.train.display import Display
from snm.planning import fit_check
from snm.runs.events import Finished, Started, Stepped
from snm.system import terminal
from snm.system.terminal import progress_bar


def test_training_prints_the_mean_loss_of_all_points(capsys):
    """A short last batch weighs by its points: (3 * 16 * 1 + 12 * 6) / 60 = 2."""
    display = Display(progress_bar())
    display.show(Started("train", 0, 4, 4, 60))
    for step, (points, loss) in enumerate([(16, 1.0), (16, 1.0), (16, 1.0), (12, 6.0)], start=1):
        display.show(Stepped(step, points, loss, seconds=0.5))
    assert "epoch   1 of 1   loss   2.0000" in capsys.readouterr().out


def test_short_epochs_share_a_line(capsys):
    """Epochs of 0.4 s: a line for each third, with its own loss, and one for the last."""
    display = Display(progress_bar())
    display.show(Started("train", 0, 8, 1, 16))
    for step in range(1, 9):
        display.show(Stepped(step, 16, float(step), seconds=0.4))
    told = [line.split()[:6] for line in capsys.readouterr().out.splitlines()]
    assert told == [f"epoch {n} of 8 loss {n}.0000".split() for n in (3, 6, 8)]
    # One that ends early is told when the run ends.
    display.show(Started("member-2", 0, 8, 1, 16))
    display.show(Stepped(1, 16, 1.0, seconds=0.4))
    assert "epoch   1" not in capsys.readouterr().out
    display.show(Finished({}))
    assert "epoch   1 of 8   loss   1.0000" in capsys.readouterr().out


def test_the_loss_of_a_part_of_an_epoch_is_called_so(capsys):
    """What was trained before step 6 is not in the mean of the second epoch of four steps."""
    display = Display(progress_bar())
    display.show(Started("train", 6, 12, 4, 60))
    for step in range(7, 13):
        display.show(Stepped(step, 15, float(step), seconds=1.0))
    told = capsys.readouterr().out
    assert "epoch   2 of 3   loss   7.5000 since step 6   " in told
    assert "epoch   3 of 3   loss  10.5000   " in told


def test_training_names_the_first_of_several_members(capsys):
    for members, names in ((1, ["train", "refit"]), (2, ["member-1", "refit-1", "member-2"])):
        display = Display(progress_bar(), members)
        for phase in ("train", "refit", "member-2")[: len(names)]:
            display.show(Started(phase, 1_211, 4_000, 4, 60))
        told = [line for line in capsys.readouterr().out.splitlines() if "going on" in line]
        assert told == [f"{name}: going on from step 1,211 of 4,000" for name in names]


def test_the_command_and_python_say_the_same_notes(data, tmp_path, capsys, monkeypatch):
    told = "memory of neighbours: not tried, because of a reason wider than the eighty columns here"
    monkeypatch.setattr("snm.trainer.start.start_notes.why_no_memory", lambda config, dataset: told)
    found = notes(snm.training(data, tiny.CONFIG, tmp_path / "a"))
    call("train", data, "--run-dir", tmp_path / "b", *tiny.FLAGS)
    lines = capsys.readouterr().out.splitlines()
    assert found[0] == told and [line for line in lines if line in found] == found


@pytest.mark.parametrize(
    ("at_once", "cores", "left"),
    [(1, 8, "2.9 min"), (2, 8, "86 s"), (3, 8, "56 s"), (3, 2, "86 s")],
)
def test_training_says_what_its_steps_will_take(at_once, cores, left, capsys, monkeypatch):
    """Steps 2 and 3 of 40 take 3 s: 1.5 s for each of 37 steps, and of 40 for every round more."""
    monkeypatch.setattr("snm.cli.train.display.num_cores", lambda: cores)
    display = Display(progress_bar(), members=3)
    display.show(Started("train", 0, 40, 4, 60, at_once))
    for step in range(1, 6):
        display.show(Stepped(step, 16, 1.0, seconds=9.0 if step == 1 else 1.0 + step % 2))
    told = capsys.readouterr().out
    assert told.count("left") == 1
    assert f"about {left} of steps left: 3 members of 10 epochs" in told


def test_a_stall_at_the_start_does_not_change_what_steps_will_take(capsys):
    display = Display(progress_bar())
    display.show(Started("train", 0, 400, 40, 600))
    for step in range(1, 12):
        display.show(Stepped(step, 16, 1.0, seconds=1.1 if step == 3 else 0.1))
    assert "about 39 s of steps left" in capsys.readouterr().out  # 0.1 s for each of 389 steps


def test_a_disk_without_room_is_told_at_the_start(data, tmp_path, capsys, monkeypatch):
    """A checkpoint has 8 numbers for each of 30 + 20 rows, and 64 KiB more: 0.1 MiB."""
    run = tmp_path / "run"
    words = "train", data, "--run-dir", run, *tiny.FLAGS, "--members=2"

    def on_a_disk_of(free):
        found = types.SimpleNamespace(disk_usage=lambda path: types.SimpleNamespace(free=free))
        monkeypatch.setattr(fit_check, "shutil", found)

    on_a_disk_of(1000)
    expected = "at least 0.1 MiB, the size of a checkpoint"
    expected = f"--run-dir {run}: found 0 MiB free on its disk, expected {expected}"
    assert refused(capsys, *words) == expected
    assert not run.exists()
    # Each of two members keeps two checkpoints, and writes a third.
    said = f"{run} has 0.1 MiB free on its disk; the checkpoints take up to 0.4 MiB\n"
    for free, told in ((70_000, 1), (1000, 0)):  # the last finds it finished
        on_a_disk_of(free)
        call(*words)
        assert capsys.readouterr().out.count(f"warning: {said}") == told
    shutil.rmtree(run)
    on_a_disk_of(900_000)
    call(*words)
    assert said not in capsys.readouterr().out


def test_a_finished_run_is_called_finished(tiny_run, capsys):
    call("train", tiny_run / "data", "--run-dir", tiny_run / "run", *tiny.FLAGS)
    assert "run is finished: nothing was trained" in capsys.readouterr().out


@pytest.mark.parametrize(("mesh", "expected"), [("", 2), ("label=2", 1)])
def test_a_training_tells_how_many_members_train_at_once(mesh, expected, data, tmp_path):
    """A mesh is given to one member alone."""
    config = dataclasses.replace(tiny.CONFIG, members=2, members_at_once=2, mesh=mesh)
    events = snm.training(data, config, tmp_path / "run")
    started = next(event for event in events if isinstance(event, Started))
    events.close()  # before it compiles
    assert started.members_at_once == expected


def test_training_goes_on_without_a_reader(data, tmp_path, monkeypatch):
    """As under `| head -1`; the stream keeps a line back, which Python would write at its exit."""
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setattr(terminal.console, "quiet", False)
    with os.fdopen(writer, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        call("train", data, "--run-dir", tmp_path / "run", *tiny.FLAGS)
        assert terminal.console.quiet
    assert (tmp_path / "run" / "result.json").exists()
    assert not terminal.console.ignores_broken_pipe


def test_a_bar_says_what_it_waits_for():
    """Before the first step: that things are prepared, and then that programs are compiled."""
    bar = progress_bar()
    display = Display(bar)
    assert [(task.description, task.visible) for task in bar.tasks] == [("preparing", True)]
    display.show(Started("train", 0, 4, 4, 60))
    assert [task.description for task in bar.tasks] == ["train: compiling"]
    display.show(Stepped(1, 16, 0.25, seconds=9.0))  # most of them of compiling: no rate yet
    assert bar.tasks[0].description == "epoch 1 loss 0.2500"
    display.show(Stepped(3, 32, 0.25, seconds=0.5))
    assert bar.tasks[0].description == "epoch 1 loss 0.2500 64/s"  # 32 points in 0.5 s


@pytest.mark.slow
def test_train_says_that_it_starts_before_it_reads(data, tmp_path):
    """On a terminal, as imports alone take seconds."""
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "snm", "train", data, "--run-dir", tmp_path / "run", *tiny.FLAGS]
    with subprocess.Popen([*argv, "--epochs=1"], stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        told = b""
        with contextlib.suppress(OSError):  # Linux: the other end is closed
            while piece := os.read(ours, 4096):
                told += piece
        os.close(ours)
    assert process.returncode == 0
    at = [told.find(word) for word in (b"starting", b"reading", b"planning", b"compiling")]
    assert at == sorted(at) and at[0] >= 0
