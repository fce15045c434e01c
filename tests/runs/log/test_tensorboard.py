"""Event files have the numbers of the log."""

import dataclasses
import threading

import pytest
import tiny
from small_runs import log, stop_after
from tensorboardX.proto.event_pb2 import Event

import snm
from snm.runs.log.tensorboard import make_summary_writer


def scalars(folder):
    """(tag, step) -> value of the event files of a folder, in the order of their names."""
    found = {}
    for path in sorted(folder.iterdir()):
        raw = path.read_bytes()
        while raw:
            size = int.from_bytes(raw[:8], "little")
            event = Event.FromString(raw[12 : 12 + size])
            raw = raw[16 + size :]
            if event.HasField("session_log"):  # TensorBoard drops these steps and later ones
                found = {at: value for at, value in found.items() if at[1] < event.step}
            for value in event.summary.value:
                assert (value.tag, event.step) not in found, "a step twice"
                found[value.tag, event.step] = value.simple_value
    return found


def test_scalars_are_the_numbers_of_the_log(tmp_path):
    """Also of a run that was broken off within an epoch, and goes on from step 4 a moment later."""
    data = tiny.dataset(tmp_path / "data")
    config = dataclasses.replace(tiny.CONFIG, validation_fraction=0.2, evaluate_every=4)
    stop_after(snm.training(data, config, tmp_path / "run"), 6)
    snm.train(data, config, tmp_path / "run")
    lines = log(tmp_path / "run")
    wanted = {("loss", one["step"]): one["loss"] for one in lines if one["event"] == "stepped"}
    for one in lines:
        if one["event"] == "evaluated":
            wanted |= {(f"validation/{name.replace('@', '_')}", one["step"]): value
                       for name, value in one["metrics"].items() if "@" in name}  # fmt: skip
    found = scalars(tmp_path / "run" / "tensorboard" / "train")
    assert {at: found[at] for at in wanted} == pytest.approx(wanted)
    assert len({step for _, step in wanted}) >= 6


def test_events_start_no_thread_of_their_own(tmp_path):
    """Where it could not start, closing the file would wait for ever."""
    before = set(threading.enumerate())
    board = make_summary_writer(tmp_path / "train", None)
    board.add_scalar("loss", 0.5, 3)
    assert len(set(threading.enumerate()) - before) == 1
    board.close()
    assert scalars(tmp_path / "train") == {("loss", 3): 0.5}
