"""Members of a run: each is a run of its own, and goes on, stops and starts as one."""

import collections
import weakref

import jax
import numpy as np
import pytest
import tiny
from small_runs import arrays, config, log, same, stop_after

import snm
from snm.checkpoints.store import Checkpoints
from snm.runs.events import Saved
from snm.runs.stored_run import StoredRun
from snm.trainer.phase_run import open_phase
from snm.trainer.training import training


def test_members_are_runs_of_their_own_and_their_scores_add_up(data, whole, tmp_path):
    both = snm.train(data, config(members=2), tmp_path / "both")
    first, second = (StoredRun.open(tmp_path / "both").member(member) for member in (1, 2))
    assert same(jax.tree.leaves(first), arrays(whole[0]))
    assert not same(jax.tree.leaves(first), jax.tree.leaves(second))
    alone = snm.train(data, config(seed=1_000_003), tmp_path / "alone")
    assert same(jax.tree.leaves(second), arrays(tmp_path / "alone"))
    # Brute force: the scores of either, added in float64.
    features, total = data.test.features, np.zeros((tiny.TEST_POINTS, tiny.LABELS))
    for run in (whole[0], tmp_path / "alone"):
        labels, scores = snm.load(run).predict(features, tiny.LABELS)
        add = np.zeros_like(total)
        np.put_along_axis(add, labels, scores.astype(np.float64), axis=1)
        total += add
    labels, scores = snm.load(tmp_path / "both").predict(features, tiny.LABELS)
    np.testing.assert_allclose(scores, -np.sort(-total, axis=1), atol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(total, labels, 1), scores, atol=1e-4)
    assert both["members"] == 2
    assert both["metrics"] == snm.evaluate(tmp_path / "both", data)["metrics"]
    assert both["seconds"] > 0
    assert alone["steps"] == both["steps"] == 12
    # They trained side by side: in the log their lines come as they happened.
    saved = [line["phase"] for line in log(tmp_path / "both") if line["event"] == "saved"]
    assert collections.Counter(saved) == {"train": 3, "member-2": 3}


@pytest.mark.parametrize(
    "events",
    [13, pytest.param(5, marks=pytest.mark.slow), pytest.param(15, marks=pytest.mark.slow)],
)
def test_members_go_on_where_they_stopped(data, tmp_path, events):
    settings = config(members=2, learn_score_scale=True, encoder="residual")
    result = snm.train(data, settings, tmp_path / "whole")
    stop_after(training(data, settings, tmp_path / "run"), events)
    again = snm.train(data, settings, tmp_path / "run")
    assert again["metrics"] == result["metrics"]
    assert same(arrays(tmp_path / "run"), arrays(tmp_path / "whole"))


def test_more_epochs_are_more_for_every_member(data, tmp_path):
    run = tmp_path / "run"
    snm.train(data, config(members=2, epochs=1), run)
    # Stopped when the first member has its two epochs and the second has one.
    events = training(data, config(members=2, epochs=2), run)
    next(event for event in events if isinstance(event, Saved))
    events.close()
    snm.train(data, config(members=2, epochs=2), run)
    snm.train(data, config(members=2, epochs=2), tmp_path / "whole")
    assert same(arrays(run), arrays(tmp_path / "whole"))


def test_each_member_stops_early_and_refits(data, tmp_path):
    settings = config(members=2, validation_fraction=0.25, patience=1, refit=True)
    snm.train(data, settings, tmp_path / "run")
    assert {line["phase"] for line in log(tmp_path / "run")} == {
        "train", "refit", "member-2", "refit-2",
    }  # fmt: skip
    assert snm.load(tmp_path / "run").model.members == 2


def test_a_warm_start_takes_member_by_member(data, tmp_path):
    snm.train(data, config(members=2), tmp_path / "old")
    tiny_rate = config(members=3, learning_rate=1e-30, tower_learning_rate=1e-30, epochs=1)
    snm.train(data, tiny_rate, tmp_path / "new", warm_start=tmp_path / "old")
    for member, source in ((1, 1), (2, 2), (3, 2)):
        new = StoredRun.open(tmp_path / "new").member(member).head.table.rows
        old = StoredRun.open(tmp_path / "old").member(source).head.table.rows
        np.testing.assert_allclose(new, old, atol=1e-6)


@pytest.fixture
def loaded(monkeypatch):
    """The steps of the checkpoints that are loaded."""
    load, steps = Checkpoints.load, []

    def counted(self, step, *rest, **more):
        steps.append(step)
        return load(self, step, *rest, **more)

    monkeypatch.setattr(Checkpoints, "load", counted)
    return steps


@pytest.mark.parametrize(
    ("changes", "read"),
    [
        ({}, 0),
        ({"members": 2}, 2),
        pytest.param({"mesh": "label=2"}, 1, marks=pytest.mark.slow),
        ({"epochs": 9, "learning_rate": 400.0, "validation_fraction": 0.3, "evaluate_every": 1}, 1),
    ],
)
def test_parameters_in_memory_are_not_read_again(changes, read, data, tmp_path, loaded):
    """Those of one member on one device, where the last step is the best."""
    result = snm.train(data, config(**changes), tmp_path / "run")
    if "epochs" in changes:
        assert result["best_step"] < result["steps"]  # else the case shows nothing
    assert len(loaded) == read
    assert result["metrics"] == snm.evaluate(tmp_path / "run", data)["metrics"]


@pytest.fixture
def begun(monkeypatch):
    """The phases that begin; none before it holds its parameters when another does."""
    begun = []

    def kept(*rest, **more):
        assert all(run.state is None for run in begun)
        begun.append(open_phase(*rest, **more))
        return begun[-1]

    monkeypatch.setattr("snm.trainer.run.open_phase", kept)
    return begun


def test_a_refit_does_not_hold_the_parameters_before_it(data, tmp_path, begun):
    again = config(refit=True, patience=9, validation_fraction=0.3)
    snm.train(data, again, tmp_path / "run")
    assert len(begun) == 2


def test_members_that_are_done_do_not_hold_their_parameters(data, tmp_path, begun):
    """Three of them, whose result is lost: the same command reads one after the other."""
    run, settings = tmp_path / "run", config(members=3, epochs=1, members_at_once=1)
    snm.train(data, settings, run)
    (run / "result.json").unlink()
    begun.clear()
    snm.train(data, settings, run)
    assert len(begun) == 3 and all(one.done for one in begun)


def test_a_finished_run_reads_one_set_of_parameters(data, tmp_path, loaded):
    """The checkpoints of the members are verified, and only the first one's is loaded."""
    run, settings = tmp_path / "run", config(members=2, epochs=1)
    result = snm.train(data, settings, run)
    loaded.clear()
    assert snm.train(data, settings, run) == result
    assert loaded == [4]


@pytest.mark.parametrize("changes", [{}, {"members": 2}, {"refit": True, "patience": 9}])
def test_the_end_of_a_run_does_not_hold_the_points_of_its_training(
    changes, data, tmp_path, monkeypatch, collect
):
    begun = []

    def kept(*rest, **more):
        run = open_phase(*rest, **more)
        begun.append(weakref.ref(run.source))
        return run

    def scored(*_, **__):
        collect()
        return {"metrics": {"held": sum(source() is not None for source in begun)}}

    monkeypatch.setattr("snm.trainer.run.open_phase", kept)
    monkeypatch.setattr("snm.trainer.result.score_test_points", scored)
    settings = config(epochs=1, validation_fraction=0.3, **changes)
    assert snm.train(data, settings, tmp_path / "run")["metrics"] == {"held": 0}
    assert len(begun) == 1 + bool(changes)
