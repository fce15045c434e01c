"""Where a memory is tried, and where a run is left without."""

import dataclasses
import json

import numpy as np
import pytest
import tiny
from scipy import sparse
from small_runs import notes

import snm
from snm.config import resolve as resolve_module
from snm.config.resolve import resolve
from snm.config.resolved import changed_by_data
from snm.data.dataset import Dataset, Points
from snm.errors import InputError
from snm.evaluation.evaluate import evaluate_points
from snm.runs.folder import RunFolder
from snm.runs.stored_run import load
from snm.trainer.memory import notes as notes_module
from snm.trainer.memory.notes import why_no_memory
from snm.trainer.memory.plan import MemoryPlan
from snm.trainer.memory.trial import split_for_memory
from snm.trainer.result import run_origin

CONFIG = tiny.REMEMBERING


def test_off_where_there_are_no_neighbours(tmp_path):
    """No two points share a feature."""
    config = dataclasses.replace(CONFIG, members=1)
    labels = snm.generate(points=600, test_points=0, features=120, labels=60, seed=0).train.labels
    data = Dataset("alone", Points(sparse.identity(600, np.float32, "csr"), labels), None, None, "")
    events = list(snm.training(data, config, tmp_path / "run"))
    record = json.loads((tmp_path / "run" / "memory.json").read_text())
    assert not record["used"] and record["gain"] <= 2 * record["error"]
    assert (record["points"], record["bytes"]) == (0, 0)
    assert not (tmp_path / "run" / "memory.npz").exists()
    assert load(tmp_path / "run").memory is None
    (told,) = (note for note in notes(events) if "memory of neighbours: " in note)
    why = "as the gain on held-out points is not above two standard errors"
    assert told.startswith(
        f"memory of neighbours: not used, {why}; at best, P@1/3/5 on 60 held-out"
    )


def test_validation_points_choose_and_are_stored_after_a_refit(tmp_path):
    """Without a refit they are not stored: `tests/estimator/test_memory.py`."""
    refit = dict(validation_fraction=0.2, patience=1, refit=True)
    config = dataclasses.replace(CONFIG, members=1, **refit)
    data = tiny.neighbour_data(tmp_path / "data")
    record = snm.train(data, config, tmp_path / "run")["memory"]
    assert record["held_out"] == 120
    assert record["used"] and record["points"] == 600


def test_held_out_points_choose_without_the_pairs_that_are_filtered(tmp_path):
    """Each point's first label is filtered, as that of a product that is its own label."""
    data = snm.load_data(tiny.neighbour_data(tmp_path / "data"))
    first = data.train.labels.indices[data.train.labels.indptr[:-1]]
    pairs = np.stack([np.arange(600), first], axis=1).astype(np.int64)
    data = dataclasses.replace(data, train=dataclasses.replace(data.train, filter=pairs))
    config = dataclasses.replace(CONFIG, members=1, validation_fraction=0.2)
    record = snm.train(data, config, tmp_path / "run")["memory"]
    assert record["used"]
    held = data.split(0.2, config.seed).test
    for with_memory, name in ((False, "before"), (True, "precision")):
        predictor = load(tmp_path / "run", memory=with_memory)
        found = evaluate_points(predictor, held, None)["metrics"]
        assert record[name] == pytest.approx([found["P@1"], found["P@3"], found["P@5"]])


def test_labels_that_are_dropped_stay_dropped(tmp_path):
    """A recommender: what a point has is never its answer, although its neighbours have it."""
    data = tiny.tastes()
    points, features = data.train, data.train.features.toarray()
    # A model that learned nothing needs the memory.
    changes = dict(members=1, epochs=1, seen="drop", item_splits=0, learning_rate=1e-6)
    config = dataclasses.replace(CONFIG, **changes)
    snm.train(data, config, tmp_path / "run")
    predictor = load(tmp_path / "run")
    assert predictor.memory is not None
    answers, _ = predictor.predict(points.features, 8)
    own = np.take_along_axis(features, answers, axis=1)
    assert (own == 0).all()


@pytest.mark.parametrize(
    ("change", "points", "expected"),
    [
        ({}, 600, "on"),
        ({"memory": "auto"}, 600, "on"),
        ({"memory": "auto", "members": 1, "epochs": 17}, 600, "on"),
        ({"memory": "auto", "members": 1, "epochs": 18}, 600, "off"),
        ({"memory": "auto"}, 199, "off"),
        ({"memory": "off"}, 600, "off"),
        ({"memory": "auto", "mesh": "label=2"}, 600, "on"),
    ],
)
def test_where_it_is_tried(change, points, expected):
    made = snm.generate(points=points, test_points=0, features=120, labels=60, seed=0)
    assert resolve(dataclasses.replace(CONFIG, **change), made).memory == expected


def test_on_is_refused_where_points_are_too_few():
    made = snm.generate(points=199, test_points=0, features=120, labels=60, seed=0)
    told = "memory on: found 199 training points, expected at least 200"
    with pytest.raises(InputError, match=told):
        resolve(CONFIG, made)


def test_several_processes_have_none_and_say_so(monkeypatch):
    """As if this were one of two; `tests/distributed` starts them."""
    made = snm.generate(points=600, test_points=0, features=120, labels=60, seed=0)
    auto = dataclasses.replace(CONFIG, memory="auto", seen="keep", input_dropout=0.0)
    assert why_no_memory(auto, made) is None
    for module in (notes_module, resolve_module):
        monkeypatch.setattr(module, "has_several_processes", lambda: True)
    assert resolve(auto, made).memory == "off"
    assert (
        why_no_memory(auto, made) == "memory of neighbours: not tried, because it needs one process"
    )
    assert why_no_memory(dataclasses.replace(auto, memory="off"), made) is None
    with pytest.raises(InputError, match=r"^memory on: found several processes, expected one"):
        resolve(dataclasses.replace(auto, memory="on"), made)


def test_none_is_tried_where_only_the_points_that_could_choose_have_labels_or_none(tmp_path):
    made = snm.generate(points=600, test_points=0, features=120, labels=60, seed=0)
    data = Dataset("few", made.train, None, None, "0" * 64)
    _, held = data.rows_of_split(0.1, CONFIG.seed)
    config = dataclasses.replace(CONFIG, members=1, epochs=1)
    for choosing in (True, False):
        some = np.full(600, not choosing)
        some[held] = choosing
        labels = sparse.csr_matrix(sparse.diags(some.astype(np.float32)) @ made.train.labels)
        labels.eliminate_zeros()
        data = dataclasses.replace(data, train=Points(made.train.features, labels))
        assert split_for_memory(config, data) is None
    events = list(snm.training(data, config, tmp_path / "run"))
    assert "memory" not in events[-1].result and load(tmp_path / "run").memory is None
    assert [note for note in notes(events) if note.startswith("memory of neighbours: ")] == [
        "memory of neighbours: not tried, since no point that could choose it has a label and a "
        "feature"
    ]
    # Nothing is left to do.
    assert len(list(snm.training(data, config, tmp_path / "run"))) == 1


@pytest.mark.parametrize(("points", "asked", "told"), [
    (600, "on", ("logit adjustment: not tried, since 60 points could choose it, and at least 500 "
                 "must",)),
    (600, "auto", ()),
    (5100, "on", ()),
])  # fmt: skip
def test_an_adjustment_that_is_asked_for_and_not_tried_is_told(points, asked, told, tmp_path):
    data = snm.generate(points=points, test_points=0, features=120, labels=60, seed=0)
    given = dataclasses.replace(CONFIG, logit_adjustment=asked)
    config = resolve(given, data)
    assert config.logit_adjustment == "on"
    origin = run_origin(data, None, None)
    origin = dataclasses.replace(origin, given=changed_by_data(given, config))
    plan = MemoryPlan.of(RunFolder(tmp_path), config, data, None, origin)
    assert plan.notes == told and len(plan.split.held) == points // 10
