"""A run that starts from another takes over what held-out points chose for that one.

Its own points cannot choose: the other run may have been trained on them.
"""

import dataclasses
import json

import numpy as np
import pytest
import tiny

import snm
from snm.runs.load import load

CONFIG = tiny.REMEMBERING


def notes(events):
    return [event.text for event in events if type(event).__name__ == "Noted"]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    place = tmp_path_factory.mktemp("first")
    data = tiny.told_by_neighbours(place / "data")
    result = snm.train(data, CONFIG, place / "run")
    assert result["memory"]["used"]
    return place, json.loads((place / "run" / "memory.json").read_text())


@pytest.mark.parametrize("members", [CONFIG.members, CONFIG.members + 1])
def test_memory_and_probabilities_are_those_of_the_other_run(first, tmp_path, members):
    place, old = first
    config = dataclasses.replace(CONFIG, members=members, epochs=1)
    events = list(snm.training(place / "data", config, tmp_path / "b", warm_start=place / "run"))
    new = json.loads((tmp_path / "b" / "memory.json").read_text())
    assert any("as chosen for " in note for note in notes(events))
    assert not any("did not see" in note for note in notes(events))
    assert new["inherited_from"] == str((place / "run").resolve())
    assert new["used"] and new["points"] == 600 == len(load(tmp_path / "b").memory.rows)
    weight = old["settings"]["weight"] * members / CONFIG.members
    assert new["settings"] == {**old["settings"], "weight": pytest.approx(weight)}
    assert new["calibration"] == old["calibration"]
    # The first member trains on all points, none of which is held out.
    started = next(event for event in events if type(event).__name__ == "Started")
    assert started.num_points == 600
    again = list(snm.training(place / "data", config, tmp_path / "b", warm_start=place / "run"))
    assert len(again) == 1 and again[0].result["memory"] == new


def test_a_run_without_a_choice_has_none_to_take_over(first, tmp_path):
    place, _ = first
    off = dataclasses.replace(CONFIG, memory="off", logit_adjustment="off")
    snm.train(place / "data", off, tmp_path / "a")
    config = dataclasses.replace(CONFIG, epochs=1)
    events = list(snm.training(place / "data", config, tmp_path / "b", warm_start=tmp_path / "a"))
    assert any(note.startswith("memory: not tried, as ") for note in notes(events))
    assert "memory" not in events[-1].result and load(tmp_path / "b").memory is None
    assert np.isfinite(events[-1].result["metrics"]["P@1"])


def test_off_stays_off(first, tmp_path):
    place, _ = first
    config = dataclasses.replace(CONFIG, memory="off", logit_adjustment="off", epochs=1)
    events = list(snm.training(place / "data", config, tmp_path / "b", warm_start=place / "run"))
    assert "memory" not in events[-1].result
    assert not any("memory" in note for note in notes(events))
