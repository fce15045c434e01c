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
