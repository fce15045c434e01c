"""A resumed run is the same run, to the last bit, wherever it stopped."""

import shutil

import pytest
import tiny
from small_runs import arrays, config, log, newest, notes, same, stop_after

import snm
from snm.checkpoints.store import Checkpoints
from snm.config.resolve import resolve
from snm.errors import InputError
from snm.model.from_config import make_model
from snm.model.model import abstract_state
from snm.runs.events import Started
from snm.runs.folder import RunFolder
from snm.trainer.training import training


@pytest.mark.parametrize(
    "changes",
    [
        dict(),
        pytest.param(dict(mined_start="all"), marks=pytest.mark.slow),
        pytest.param(
            dict(sampled_start=2, mined=2),
            marks=pytest.mark.slow,
        ),
        dict(input_dropout=0.5, schedule="linear", encoder="residual", row_optimizer="adagrad"),
        pytest.param(
            dict(loss="bowl", vartheta="subsample", positives="one", checkpoint_every=2),
            marks=pytest.mark.slow,
        ),
    ],
    ids=[
        "mined softmax",
        "falling k",
        "rising B",
        "dropout, tower, adagrad",
        "subsample, checkpoints within epochs",
    ],
)
def test_a_resumed_run_is_the_same_run(data, whole, tmp_path, changes):
    settings = config(**changes)
    run, result = whole
    if changes:
        run = tmp_path / "whole"
        result = snm.train(data, settings, run)
    # The checkpoint of the first epoch is there, some steps of the second are lost.
    stop_after(training(data, settings, tmp_path / "run"), 5)
    assert 0 < newest(tmp_path / "run") < 12
    again = snm.train(data, settings, tmp_path / "run")
    assert [line["event"] for line in log(tmp_path / "run")].count("resumed") == 1
    assert same(arrays(run), arrays(tmp_path / "run"))
    for key in ("metrics", "steps", "epochs", "best_step", "by_label_frequency"):
        assert again[key] == result[key], key


def test_a_run_stopped_before_its_first_checkpoint(data, whole, tmp_path):
    stop_after(training(data, tiny.CONFIG, tmp_path / "run"), 2)
    assert newest(tmp_path / "run") is None
    with pytest.raises(InputError, match="no checkpoint"):
        snm.load(tmp_path / "run")
    said = notes(training(data, tiny.CONFIG, tmp_path / "run"))
    assert "no checkpoint yet: training starts again" in said
    assert same(arrays(whole[0]), arrays(tmp_path / "run"))


def test_a_later_member_without_a_checkpoint_says_that_it_starts_again(data, tmp_path):
    settings = config(members=2, members_at_once=1, checkpoint_every=1000)

    stop_after(training(data, settings, tmp_path / "run"), 11)
    assert newest(tmp_path / "run") == 12
    assert {entry["phase"] for entry in log(tmp_path / "run")} == {"train", "member-2"}
    again, done = (notes(training(data, settings, tmp_path / "run")) for _ in range(2))
    said = ["no checkpoint of member-2 yet: training starts again"]
    assert [text for text in again if "again" in text] == said
    assert not any("again" in text for text in done)


def test_a_folder_only_begun_is_taken_over(data, whole, tmp_path):
    """What a kill leaves while the folder is being set up."""
    (tmp_path / "run").mkdir()
    for name in ("run.json", "weighting.partial", "config.partial"):
        (tmp_path / "run" / name).write_text("half")
    snm.train(data, tiny.CONFIG, tmp_path / "run")
    assert same(arrays(whole[0]), arrays(tmp_path / "run"))


@pytest.mark.parametrize(
    "names", [("labels.txt", "labels.csv"), ("labels.txt",), ("run.json", "config.yaml", "run.py")]
)
def test_a_folder_with_files_of_the_user_is_not_taken_over(data, tmp_path, names):
    """Not even if they are named as those of a run are."""
    (tmp_path / "run").mkdir()
    for name in names:
        (tmp_path / "run" / name).write_text("mine")
    with pytest.raises(InputError, match="something that is no run"):
        snm.train(data, tiny.CONFIG, tmp_path / "run")
    assert {path.name: path.read_text() for path in (tmp_path / "run").iterdir()} == (
        dict.fromkeys(names, "mine")
    )


def test_the_seed_is_all_that_differs(data, whole, tmp_path):
    run, result = whole
    assert snm.train(data, tiny.CONFIG, tmp_path / "same")["metrics"] == result["metrics"]
    assert same(arrays(run), arrays(tmp_path / "same"))
    snm.train(data, config(seed=1), tmp_path / "other")
    assert not same(arrays(run), arrays(tmp_path / "other"))


def test_looking_at_a_run_does_not_disturb_it(whole, tmp_path):
    """Evaluating while another process trains: its half-written checkpoint is left alone."""
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    half = run / "checkpoints" / "16.orbax-checkpoint-tmp"
    half.mkdir()
    (half / "part").write_text("half")
    assert newest(run) == 12
    assert same(arrays(run), arrays(whole[0]))
    assert (half / "part").exists()


def test_a_checkpoint_may_vanish_while_a_live_run_is_listed(data, whole, monkeypatch):
    """The writer deletes old checkpoints; a reader that has just listed one skips it."""
    checkpoints = RunFolder(whole[0]).checkpoints(2)
    assert checkpoints.latest() == 12 and not checkpoints.path(16).exists()
    monkeypatch.setattr(Checkpoints, "_steps", lambda self: [4, 8, 12, 16])
    model = make_model(resolve(tiny.CONFIG, data), tiny.FEATURES, tiny.LABELS)
    _, note, damaged = checkpoints.load_newest_intact(abstract_state(model))
    assert note.progress["step"] == 12
    assert [error.path for error in damaged] == [checkpoints.path(16)]


@pytest.mark.parametrize(
    ("epochs", "said"),
    [(3, []), (2, ["epochs: 2 now, 3 before (--epochs 3 keeps these)"])],
)
def test_another_number_of_epochs_is_told(data, tmp_path, epochs, said):
    """Of a run that was stopped after its first epoch of three."""
    run = tmp_path / "run"
    stop_after(training(data, tiny.CONFIG, run), 4)
    assert not (run / "result.json").exists()
    events = list(training(data, config(epochs=epochs), run))
    assert notes(events) == said
    assert events[-1].result["steps"] == 4 * epochs


def test_more_epochs_go_on_and_fewer_are_refused(data, whole, tmp_path):
    run, shorter = tmp_path / "run", config(epochs=1)
    assert snm.train(data, shorter, run)["steps"] == 4
    events = list(training(data, tiny.CONFIG, run))
    started = [event for event in events if isinstance(event, Started)]
    assert [(event.step, event.last_step) for event in started] == [(4, 12)]
    assert notes(events) == ["epochs: 3 now, 1 before"]
    assert events[-1].result["steps"] == 12
    assert same(arrays(whole[0]), arrays(run))
    with pytest.raises(InputError, match=r"^epochs: found 3 epochs done .*\(1 now, 4 steps\)"):
        snm.train(data, shorter, run)
    assert snm.read_config(run / "config.toml").epochs == 3
