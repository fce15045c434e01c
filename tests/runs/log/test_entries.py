"""The lines of a log: those that count, and the numbers that are drawn over the steps."""

import json

import numpy as np
import pytest

from snm.runs.events import Evaluated, Noted, Probed, Saved, Stepped
from snm.runs.log.entries import get_scalars, make_entry, read_entries
from snm.runs.log.event_log import EventLog


def test_the_last_entry_of_a_step_counts(tmp_path):
    log = tmp_path / "log.jsonl"
    assert read_entries(log, "stepped") == []
    with EventLog(tmp_path, "train", 0) as first:
        for event in (Stepped(2, 8, 1.5, 0.1), Stepped(4, 8, 9.0, 0.2), Saved(2),
                      Probed(4, 0.2, {"x": 9.0})):  # fmt: skip
            first.write(event)
    with log.open("a") as lines:
        lines.write('{"event": "stepped", "phase": "train", "st\n[1]\n3\n"stepped"\n{}\n')
        lines.write('{"event": "noted", "text": "\\"stepped\\""}\n')
    with EventLog(tmp_path, "member-2", 0) as other:
        other.write(Stepped(3, 8, 3.0, 0.1))
    with EventLog(tmp_path, "train", 2) as again:
        again.write(Stepped(4, 8, 1.25, 0.2))
    found = read_entries(log, "stepped")
    assert [(one["phase"], one["step"], one["loss"]) for one in found] == [
        ("train", 2, 1.5), ("member-2", 3, 3.0), ("train", 4, 1.25),
    ]  # fmt: skip
    both = read_entries(log, "stepped", "probed")
    assert [one["event"] for one in both if one["step"] == 4] == ["stepped", "probed"]


METRICS = {"points": 20, "points_without_labels": 1, "P@1": 50.0, "R@1": float("nan")}
FOUND = {"x": np.float32(0.5), "y": np.array([1.0]), "z": 3, "a": float("inf")}


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (Stepped(2, 8, 1.5, 0.1), {"loss": 1.5}),
        (Stepped(2, 8, float("nan"), 0.1), {}),
        (Evaluated(2, METRICS, True), {"validation/P@1": 50.0}),
        (Probed(2, 0.1, FOUND), {"probe/x": 0.5}),
        (Noted(2, "text"), {}),
    ],
)
def test_numbers_of_an_event_are_those_of_its_line(tmp_path, event, wanted):
    assert get_scalars(make_entry(event)) == wanted
    with EventLog(tmp_path, "train", 0) as log:
        log.write(event)
    assert get_scalars(json.loads((tmp_path / "log.jsonl").read_text())) == wanted
