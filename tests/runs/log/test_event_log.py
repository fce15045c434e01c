"""The lines of a run's log."""

import json

import numpy as np

from snm.runs.events import Probed, Stepped
from snm.runs.log.event_log import EventLog


def test_numbers_that_json_does_not_have_become_null(tmp_path):
    """Other programs refuse a line with NaN."""
    with EventLog(tmp_path, "train", 0) as log:
        log.write(Stepped(1, 8, float("inf"), 0.5))
        log.write(Stepped(2, 8, float("nan"), 0.5))
        log.write(Probed(2, 1.0, {"x": np.float32("nan"), "y": np.array([1, -np.inf]), "z": 3}))

    def refuse(word):
        raise AssertionError(word)

    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    first, second, third = (json.loads(line, parse_constant=refuse) for line in lines)
    assert first["loss"] is None and second["loss"] is None and first["seconds"] == 0.5
    assert third["found"] == {"x": None, "y": [1, None], "z": 3}


def test_an_event_after_half_a_line_has_a_line_of_its_own(tmp_path):
    """A full disk takes a part of a line; the same command goes on once there is room."""
    with EventLog(tmp_path, "train", 0) as log:
        log.write(Stepped(1, 8, 0.5, 0.5))
    path = tmp_path / "log.jsonl"
    path.write_text(path.read_text() + '{"time": 1')
    for step in (2, 3):
        with EventLog(tmp_path, "train", step) as log:
            log.write(Stepped(step, 8, 0.5, 0.5))
    first, half, *others = path.read_text().splitlines()
    assert half == '{"time": 1'
    entries = [json.loads(line) for line in (first, *others)]
    assert [entry["step"] for entry in entries] == [1, 2, 3]
