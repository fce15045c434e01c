"""Damaged checkpoints: a run goes on from the newest one that is whole."""

import dataclasses
import shutil

import jax
import pytest
import tiny
from command_line import refused
from small_runs import arrays, config, log, notes, same

import snm
from snm.checkpoints.manifest import DamagedError
from snm.checkpoints.store import Checkpoints
from snm.errors import InputError
from snm.runs.events import Stepped
from snm.runs.folder import RunFolder
from snm.trainer import training as trainer


def files(checkpoint):
    """The files of a checkpoint: arrays, and the metadata of orbax and of this package."""
    return sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.stat().st_size)


def arrays_file(checkpoint):
    return max(files(checkpoint), key=lambda path: path.stat().st_size)


def truncate(checkpoint):
    path = arrays_file(checkpoint)
    path.write_bytes(path.read_bytes()[:-100])


def flip(checkpoint):
    path = arrays_file(checkpoint)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 4
    path.write_bytes(raw)


def change_the_progress(checkpoint):
    path = checkpoint / "manifest.json"
    text = path.read_text()
    assert '"stale": 0' in text
    path.write_text(text.replace('"stale": 0', '"stale": 3'))


def empty_the_manifest(checkpoint):
    (checkpoint / "manifest.json").write_text("")


def remove_a_file(checkpoint):
    arrays_file(checkpoint).unlink()


DAMAGE = [truncate, flip, change_the_progress, empty_the_manifest, remove_a_file]


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_a_run_continues_from_the_newest_intact_checkpoint(data, whole, tmp_path, damage):
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    checkpoints = RunFolder(run).checkpoints(2)
    damage(checkpoints.path(12))
    with pytest.raises(DamagedError, match=r"checkpoints/12: found a damaged checkpoint \(.+\)"):
        snm.load(run)
    events = list(trainer.training(data, tiny.CONFIG, run))
    (noted,) = notes(events)
    assert str(checkpoints.path(12)) in noted and "going on from the one before" in noted
    assert [line["text"] for line in log(run) if line["event"] == "noted"] == [noted]
    assert [event.step for event in events if isinstance(event, Stepped)] == [10, 12]
    assert events[-1].result["metrics"] == whole[1]["metrics"]
    assert same(arrays(run), arrays(whole[0]))


def test_without_an_intact_checkpoint_the_error_is_one_line(folder, whole, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    # The facts name the folder that the data came from.
    for step in (8, 12):
        flip(RunFolder(run).checkpoints(2).path(step))
    said = refused(capsys, "train", folder, "--run-dir", run, *tiny.FLAGS)
    assert "no whole checkpoint" in said and "to begin again" in said


@pytest.mark.slow
def test_a_damaged_member_is_trained_again(data, tmp_path):
    run, settings = tmp_path / "run", config(members=2)
    snm.train(data, settings, run)
    good = arrays(run)
    flip(RunFolder(run).checkpoints(2, "member-2").path(12))
    snm.train(data, settings, run)
    assert same(arrays(run), good)


@pytest.mark.parametrize(
    ("keep", "begins"),
    [
        (9, 7),  # the best is that of step 8: all of them are kept
        pytest.param(2, None, marks=pytest.mark.slow),  # none before it is
    ],
)
def test_a_damaged_best_checkpoint_is_made_again(data, tmp_path, keep, begins):
    """A run does not go on from one after it: that would end with the same damage."""
    settings = config(
        epochs=12, validation_fraction=28 / 60, patience=3, evaluate_every=2, checkpoint_every=7,
        keep_checkpoints=keep,
    )  # fmt: skip
    run = tmp_path / "run"
    result = snm.train(data, settings, run)
    good, checkpoints = arrays(run), RunFolder(run).checkpoints(keep)
    best = checkpoints.best()
    assert best == result["best_step"] == 8 < checkpoints.latest()
    flip(checkpoints.path(best))
    if begins is None:
        said = r"checkpoints: found no whole checkpoint .*: remove this folder to begin again"
        with pytest.raises(InputError, match=said):
            snm.train(data, settings, run)
        assert (run / "result.json").exists()
        shutil.rmtree(run / "checkpoints")
    events = list(trainer.training(data, settings, run))
    if begins is not None:
        (noted,) = notes(events)
        assert f"checkpoints/{best}: found a damaged" in noted
        assert next(event.step for event in events if isinstance(event, Stepped)) > begins
    assert events[-1].result["best_step"] == best
    assert same(arrays(run), good)


def test_a_checkpoint_of_another_run_is_refused(data, whole, tmp_path):
    about = RunFolder(whole[0]).checkpoints(2).read(12).about
    assert about["data_sha256"] == data.sha256 and about["seed"] == 0
    assert about["versions"]["jax"] == jax.__version__
    # One that was copied here from another run is refused, though it is whole.
    other = tmp_path / "other"
    snm.train(data, config(seed=3), other)
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    shutil.rmtree(run / "checkpoints" / "12")
    shutil.copytree(other / "checkpoints" / "12", run / "checkpoints" / "12")
    with pytest.raises(InputError, match="found a checkpoint of a run with seed 3, expected 0"):
        snm.train(data, tiny.CONFIG, run)


def test_other_library_versions_are_noted(data, whole, tmp_path, monkeypatch):
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    read = Checkpoints.read

    def older(self, step):
        note = read(self, step)
        versions = {**note.about["versions"], "jax": "0.1.0"}
        return dataclasses.replace(note, about={**note.about, "versions": versions})

    monkeypatch.setattr(Checkpoints, "read", older)
    said = notes(trainer.training(data, config(epochs=4), run))
    assert any("began with jax 0.1.0" in note for note in said)
