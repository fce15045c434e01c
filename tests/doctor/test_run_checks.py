"""Damages runs, and checks the findings and the advice of `snm doctor`."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tiny
from command_line import call, refused
from denied import deny
from edits import accept_edits

import snm
from snm.doctor.run_checks import examine_run
from snm.runs.folder import RunFolder


@pytest.fixture(scope="module")
def run(tiny_run):
    return tiny_run / "run"


def test_a_run_is_not_blamed_for_a_jax_that_cannot_start(run, monkeypatch):
    def broken():
        raise AssertionError

    monkeypatch.setattr("jax.devices", broken)
    assert "model" not in levels(run)
    assert not [said for said in levels(run).values() if said.level == "error"]


def levels(run):
    return {finding.what: finding for finding in examine_run(run)}


def test_a_good_run(run, capsys):
    assert {f.level for f in levels(run).values()} == {"ok"}
    assert "finished: saved at step 12 of the training" in levels(run)["checkpoints"].found
    call("doctor", run)
    assert "the model predicts" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    ["weighting.npz", "config.toml", "run.json", "manifest.json", "checkpoints/12/manifest.json"],
)
def test_a_file_that_may_not_be_read_is_not_to_be_made_anew(run, name, monkeypatch):
    deny(monkeypatch, run / name)
    (said,) = [said for said in levels(run).values() if said.level == "error"]
    expected = "found permission denied, expected permission to read it"
    assert said.found == f"{run / name}: {expected}"
    assert said.advice == "give this user the right to read it"


def test_damaged_runs(run, tmp_path, capsys):
    copy = shutil.copytree(run, tmp_path / "unfinished")
    RunFolder(copy).mark_unfinished()
    said = levels(copy)["checkpoints"]
    assert said.level == "note" and "continues from there" in said.advice
    assert "the last line of the log is of step 12" in said.found
    shutil.rmtree(copy / "checkpoints")
    assert levels(copy)["checkpoints"].level == levels(copy)["model"].level == "note"
    call("doctor", copy)
    assert "there is none" in capsys.readouterr().out

    copy = shutil.copytree(run, tmp_path / "emptied")
    shutil.rmtree(copy / "checkpoints")
    said = levels(copy)
    assert said["checkpoints"].level == said["model"].level == "error"
    assert said["model"].advice == "the same `snm train` command goes on"
    call("doctor", copy, status=1)

    copy = shutil.copytree(run, tmp_path / "broken")
    (copy / "run.json").write_text("{")
    accept_edits(copy)
    (said,) = examine_run(copy)
    assert said.level == "error" and "damaged JSON" in said.found

    copy = shutil.copytree(run, tmp_path / "arrays")
    for file in (copy / "checkpoints").rglob("d/*"):  # where orbax keeps arrays
        file.write_bytes(b"\0" * 10)
    said = levels(copy)["model"]
    assert said.level == "error" and "goes on from the checkpoint before it" in said.advice


def test_an_interrupted_run_whose_first_member_has_no_checkpoint(run, tmp_path, capsys):
    data = json.loads((run / "run.json").read_text())["data"]
    config = dataclasses.replace(tiny.CONFIG, members=2, epochs=1, members_at_once=1)
    snm.train(data, config, tmp_path / "run")
    RunFolder(tmp_path / "run").mark_unfinished()
    for step in (tmp_path / "run" / "checkpoints").glob("[0-9]*"):
        shutil.rmtree(step)
    said = levels(tmp_path / "run")
    assert said["checkpoints"].found.startswith(
        "not finished: saved at step 4 of the training of member 2"
    )
    assert said["model"].level == "note" and "member 1 has no checkpoint" in said["model"].found
    call("doctor", tmp_path / "run")
    capsys.readouterr()
    expected = "found no checkpoint of member 1, expected one: the same `snm train` command goes on"
    assert refused(capsys, "evaluate", tmp_path / "run").endswith(expected)


def test_data_of_a_run_that_changed(run, tmp_path):
    facts = json.loads((run / "run.json").read_text())
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "run.json").write_text(json.dumps({**facts, "data": str(tmp_path / "gone")}))
    accept_edits(copy)
    assert "no such folder" in levels(copy)["data"].found
    (copy / "run.json").write_text(json.dumps({**facts, "sha256": "0" * 64}))
    accept_edits(copy)
    assert levels(copy)["data"].level == "warning"
    result = json.loads((run / "result.json").read_text())
    result["versions"]["jax"] = "0.1"
    (copy / "result.json").write_text(json.dumps(result))
    accept_edits(copy)
    assert "jax 0.1, now" in levels(copy)["versions"].found


def test_parameters_that_are_not_finite(run, monkeypatch):
    import jax

    from snm.doctor import run_checks

    predictor = snm.load(run)
    spoilt = jax.tree.map(lambda leaf: leaf * np.nan, predictor.state)
    broken = type(predictor)(predictor.model, spoilt, predictor.weighting)
    monkeypatch.setattr(run_checks, "load", lambda path: broken)
    assert "not finite" in levels(run)["model"].found


def test_neither_data_nor_run(tmp_path, capsys):
    said = refused(capsys, "doctor", tmp_path / "nowhere")
    assert said.endswith("found no such folder, expected the folder of a data set or of a run")
