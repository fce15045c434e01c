"""What a training tells of its time: in a line, in a table, and in result.json."""

import dataclasses
import json

import pytest
import tiny
from command_line import call

import snm
from snm.cli.train.verb import _print_times
from snm.runs.events import Counters
from snm.system import timing
from snm.trainer.phase import TrainedPhase
from snm.trainer.result import training_summary


@pytest.mark.parametrize("flags", [(), ("--profile-time",)])
def test_the_parts_of_a_training_add_up(flags, folder, tmp_path, capsys):
    call("train", folder, "--run-dir", tmp_path / "run", *tiny.FLAGS, *flags)
    told = capsys.readouterr().out
    time = json.loads((tmp_path / "run" / "result.json").read_text())["time"]
    parts = time["parts"]
    assert "iB of RAM at the peak; written to " in " ".join(told.split())
    assert {"starting", "reading", "steps", "compiling", "test points", "checkpoints"} <= set(parts)
    assert all(seconds >= 0 for seconds in parts.values())
    assert 0 < sum(parts.values()) <= time["whole"]
    assert parts["steps"] < time["model"] <= time["whole"] - parts["test points"]
    assert sum(time["programs"].values()) == pytest.approx(parts["compiling"])
    if flags:
        rows = {line.split("│")[1].strip() for line in told.splitlines() if line.startswith("│")}
        assert set(parts) | {"the rest", "all"} <= rows
    else:
        said = " ".join(told.split()).split("from the command to the result: ")[1]
        shown, hint, _ = said.partition(" (--profile-time shows all)")
        assert hint and len(shown.split(", ")) == 4
        for one in shown.split(", "):
            seconds, _, name = one.partition(" ")
            assert float(seconds) >= 0 and name in {*parts, "the rest"}


def test_the_memory_of_neighbours_is_not_called_like_ram(monkeypatch, capsys):
    monkeypatch.setattr(timing, "times", lambda: timing.Times(5.0, {"memory": 3.0}, {}))
    _print_times(table=False)
    assert "result: 3.0 memory of neighbours, 2.0 the rest (" in capsys.readouterr().out
    _print_times(table=True)
    shown = capsys.readouterr().out
    assert "memory of neighbours" in shown and "3.00" in shown and "60.0%" in shown


def test_each_call_measures_itself(folder, tmp_path):
    found = [snm.train(folder, tiny.CONFIG, tmp_path / name)["time"] for name in "ab"]
    for time in found:
        assert "starting" not in time["parts"] and time["parts"]["steps"] > 0
        assert sum(time["parts"].values()) <= time["whole"]


def test_trainings_in_turns_measure_themselves(folder, tmp_path, monkeypatch):
    """The second, whose data are read already, does not forget what the first took.

    To read takes an hour by the clock of the test.
    """
    data = snm.load_data(folder)
    clock, hours = timing.time.perf_counter, []
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock() + 3600 * len(hours))

    def slow(_):
        hours.append(1)
        return data

    monkeypatch.setattr("snm.trainer.request.load_together", slow)
    first = snm.training(folder, tiny.CONFIG, tmp_path / "a")
    second = snm.training(data, tiny.CONFIG, tmp_path / "b")
    next(first)
    next(second)
    read = []
    for events in (first, second):
        *_, last = events
        read.append(last.result["time"]["parts"]["reading"])
    assert read[0] >= 3600 > read[1]


@pytest.mark.parametrize(("at_once", "seconds"), [(1, 4.0), (2, 3.0)])
def test_examples_a_second_of_members_side_by_side(at_once, seconds):
    """Two members, of 120 points each, in 3 and in 1 second."""
    done = [
        TrainedPhase(Counters(step=8, seconds=alone), 4, 120.0, None, None) for alone in (3.0, 1.0)
    ]
    resolved = tiny.resolved(dataclasses.replace(tiny.CONFIG, members=2, score_scale=1.0))
    found = training_summary(resolved, done, at_once)
    assert (found["seconds"], found["examples_per_second"]) == (seconds, 240 / seconds)


def test_waiting_for_members_beside_the_first_is_a_part(folder, tmp_path):
    config = dataclasses.replace(tiny.CONFIG, members=3, members_at_once=3)
    parts = snm.train(folder, config, tmp_path / "run")["time"]["parts"]
    assert parts["other members"] > 0
