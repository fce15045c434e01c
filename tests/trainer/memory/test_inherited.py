"""A run that starts from another takes over what held-out points chose for that one.

Its own points cannot choose: the other run may have been trained on them.
"""

import dataclasses
import itertools
import json
import re
import shutil

import numpy as np
import pytest
import tiny
from edits import accept_edits
from scipy.sparse import csr_matrix
from small_runs import notes

import snm
from snm.config.resolved import read_resolved
from snm.data.id_space import IdSpace
from snm.errors import InputError, StoppedError
from snm.prediction.calibration import Calibration
from snm.prediction.thresholds import Threshold
from snm.runs.events import Started
from snm.runs.folder import RunFolder
from snm.runs.stored_run import load
from snm.runs.typed_json import parse_json
from snm.trainer.memory.inherited import _renumber_labels, find_inherited_memory
from snm.trainer.start.warm_start import WarmStart

CONFIG = tiny.REMEMBERING


# One member and one epoch of a run that starts from another.
SHORT = dataclasses.replace(CONFIG, members=1, epochs=1)


@pytest.fixture(scope="module")
def first(remembering):
    record = json.loads((remembering / "run" / "memory.json").read_text())
    assert record["used"]
    return remembering, record


@pytest.mark.parametrize("members", [CONFIG.members, CONFIG.members - 1])
def test_memory_and_probabilities_are_those_of_the_other_run(first, tmp_path, members):
    place, old = first
    config = dataclasses.replace(CONFIG, members=members, epochs=1)
    events = list(snm.training(place / "data", config, tmp_path / "b", warm_start=place / "run"))
    new = json.loads((tmp_path / "b" / "memory.json").read_text())
    assert any("as chosen for " in note for note in notes(events))
    assert not any("held-out" in note for note in notes(events))
    assert new["inherited_from"] == str((place / "run").resolve())
    assert new["used"] and new["points"] == 600 == len(load(tmp_path / "b").memory.rows)
    weight = old["settings"]["weight"] * members / CONFIG.members
    assert new["settings"] == {**old["settings"], "weight": pytest.approx(weight)}
    assert new["calibration"] == old["calibration"]
    # The first member trains on all points, none of which is held out.
    started = next(event for event in events if isinstance(event, Started))
    assert started.num_points == 600
    again = list(snm.training(place / "data", config, tmp_path / "b", warm_start=place / "run"))
    assert len(again) == 1 and again[0].result["memory"] == new


def test_a_run_without_a_choice_has_none_to_take_over(first, tmp_path):
    place, _ = first
    off = dataclasses.replace(SHORT, memory="off", logit_adjustment="off")
    snm.train(place / "data", off, tmp_path / "a")
    events = list(snm.training(place / "data", SHORT, tmp_path / "b", warm_start=tmp_path / "a"))
    assert any(note.startswith("memory of neighbours: not tried, as ") for note in notes(events))
    assert "memory" not in events[-1].result and load(tmp_path / "b").memory is None
    assert np.isfinite(events[-1].result["metrics"]["P@1"])


def test_off_stays_off(first, tmp_path):
    place, _ = first
    config = dataclasses.replace(SHORT, memory="off", logit_adjustment="off")
    events = list(snm.training(place / "data", config, tmp_path / "b", warm_start=place / "run"))
    assert "memory" not in events[-1].result
    said = r"memory of neighbours: that of .* are not taken over \(--memory off\)$"
    assert any(re.search(said, note) for note in notes(events))


def test_nothing_is_taken_over_where_auto_tries_no_memory(first, tmp_path):
    place, _ = first
    few = snm.load_data(place / "data")
    few = dataclasses.replace(few, train=few.train.take(np.arange(150)), sha256="1" * 64)
    config = dataclasses.replace(SHORT, memory="auto", logit_adjustment="auto")
    events = snm.training(few, config, tmp_path / "b", warm_start=place / "run", same_ids=True)
    before = list(itertools.takewhile(lambda event: not isinstance(event, Started), events))
    events.close()
    said = r"are not taken over \(auto tries none here\)$"
    assert any(re.search(said, note) for note in notes(before))


def test_nothing_is_said_of_points_that_choose_nothing(first, tmp_path):
    """They would be too few for a logit adjustment, which is taken over, as the memory is."""
    place, _ = first
    config = dataclasses.replace(SHORT, logit_adjustment="on")
    events = snm.training(place / "data", config, tmp_path / "b", warm_start=place / "run")
    before = list(itertools.takewhile(lambda event: not isinstance(event, Started), events))
    events.close()
    assert not any("logit adjustment" in note for note in notes(before))


def test_a_run_goes_on_with_what_it_took_over(first, tmp_path):
    """Also when the other run is gone; nothing stale is left beside new parameters."""
    place, _ = first
    shutil.copytree(place / "run", tmp_path / "a")
    snm.train(place / "data", SHORT, tmp_path / "b", warm_start=tmp_path / "a")
    shutil.rmtree(tmp_path / "a")
    longer = dataclasses.replace(SHORT, epochs=2)
    result = snm.train(place / "data", longer, tmp_path / "b", warm_start=tmp_path / "a")
    assert result["memory"]["used"] and result["epochs"] == 2
    again = snm.evaluate(tmp_path / "b")
    assert again["metrics"] == result["metrics"]


def test_an_interrupted_run_takes_over_what_it_began_with(first, tmp_path):
    """The other run is gone before the end."""
    place, old = first
    shutil.copytree(place / "run", tmp_path / "a")
    with pytest.raises(StoppedError):
        snm.train(place / "data", SHORT, tmp_path / "b", warm_start=tmp_path / "a",
                  stop=lambda: True)  # fmt: skip
    assert not (tmp_path / "b" / "memory.json").exists()
    shutil.rmtree(tmp_path / "a")
    result = snm.train(place / "data", SHORT, tmp_path / "b", warm_start=tmp_path / "a")
    weight = old["settings"]["weight"] / CONFIG.members
    assert result["memory"]["used"]
    assert result["memory"]["settings"] == {**old["settings"], "weight": pytest.approx(weight)}
    assert result["memory"]["calibration"] == old["calibration"]


def test_thresholds_are_of_the_labels_here(first):
    """The data number their labels in the other direction, and lack the last."""
    place, old = first
    own = {label: 0.1 + label / 100 for label in (3, 5, 8)}
    calibration = parse_json(Calibration, old["calibration"], "memory.json")
    calibration.thresholds["macro-f1"] = Threshold(0.5, 50, tuple(own), tuple(own.values()))
    slots = np.arange(snm.load_data(place / "data").train.num_labels - 1)[::-1]
    found = _renumber_labels(calibration, slots).thresholds
    macro = found["macro-f1"]
    there = slots[list(macro.labels)].tolist()
    assert dict(zip(there, macro.own, strict=True)) == own
    assert macro.labels == tuple(sorted(macro.labels))
    assert found["micro-f1"] == calibration.thresholds["micro-f1"]
    few = _renumber_labels(calibration, np.array([8, 40, 41])).thresholds["macro-f1"]
    assert few == Threshold(0.5, 3, (0,), (own[8],))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss": "bowl"}, "loss is .* there, bowl here, which gives other scores"),
        ({"score_scale": 2.5}, "score_scale is .* there, 2.5 here"),
        ({"logit_adjustment": "off"}, None),
    ],
)
def test_what_does_not_fit_is_not_taken_over(first, tmp_path, changes, said):
    place, _ = first
    start = WarmStart(place / "run", IdSpace.of(snm.load_data(place / "data")))
    origin = RunFolder(place / "run").read_origin()
    settings = read_resolved(place / "run" / "config.toml")
    asked = dataclasses.replace(settings, **changes)
    taken, note = find_inherited_memory(RunFolder(tmp_path / "b"), asked, start, origin)
    if said is None:
        assert taken is not None and note is None
    else:
        assert taken is None and re.search(said, note)


def test_curves_of_adjusted_scores_are_not_those_of_others(first, tmp_path):
    place, old = first
    shutil.copytree(place / "run", tmp_path / "a")
    record = {**old, "adjustment": {"strength": 0.1, "before": [0.0] * 3, "precision": [0.0] * 3}}
    (tmp_path / "a" / "memory.json").write_text(json.dumps(record))
    accept_edits(tmp_path / "a")
    start = WarmStart(tmp_path / "a", IdSpace.of(snm.load_data(place / "data")))
    origin = RunFolder(place / "run").read_origin()
    config = read_resolved(place / "run" / "config.toml")
    for choice, kept in (("on", True), ("off", False)):
        asked = dataclasses.replace(config, logit_adjustment=choice)
        taken, note = find_inherited_memory(RunFolder(tmp_path / "b"), asked, start, origin)
        assert (taken.calibration is not None) == kept
        assert (taken.adjustment is not None) == kept
        assert (note is None) == kept


def test_a_damaged_choice_is_refused_before_anything_is_trained(first, tmp_path):
    place, _ = first
    shutil.copytree(place / "run", tmp_path / "a")
    (tmp_path / "a" / "memory.json").write_text("{}")
    with pytest.raises(InputError, match=r"memory\.json"):
        snm.train(place / "data", CONFIG, tmp_path / "b", warm_start=tmp_path / "a")
    assert not (tmp_path / "b").exists()


def test_fewer_labels_than_the_other_run_sampled(tmp_path):
    data = snm.load_data(tiny.write(tmp_path / "data", names=True))
    every = dataclasses.replace(tiny.CONFIG, sampled="all", mined="all", loss="softmax")
    snm.train(tmp_path / "data", every, tmp_path / "a")
    some = np.arange(12)
    train = dataclasses.replace(data.train, labels=csr_matrix(data.train.labels[:, some]))
    test = dataclasses.replace(data.test, labels=csr_matrix(data.test.labels[:, some]))
    few = dataclasses.replace(
        data, train=train, test=test, label_names=data.label_names[:12], sha256="few"
    )
    result = snm.train(few, every, tmp_path / "b", warm_start=tmp_path / "a")
    assert load(tmp_path / "b").model.spec.num_labels == 12 and result["metrics"]["P@1"] > 0
