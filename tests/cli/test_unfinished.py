"""Commands use a run that is not finished, and say so in one line."""

import dataclasses
import json
import shutil

import pytest
import small_runs
import tiny
from command_line import call

import snm
from snm.checkpoints.store import Checkpoints
from snm.errors import InputError
from snm.runs.folder import RunFolder


@pytest.fixture
def killed(run, tmp_path):
    """A run of which the result is not there yet."""
    copy = shutil.copytree(run, tmp_path / "killed")
    RunFolder(copy).mark_unfinished()
    return copy


COMMANDS = {
    "evaluate": ["--json"],
    "predict": ["--format", "jsonl"],
    "export": ["--to", "npy"],
    "bounds": ["--json"],
    "serve": ["--workers", "2"],  # which is refused once the run is loaded
}


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unfinished_run_is_named(name, run, killed, data, tmp_path, capsys):
    words = {"predict": [data / "test.txt"], "export": ["--out", tmp_path / "out"]}
    said = f"snm: {killed} is not finished, this is step 12; the same `snm train` command goes on\n"
    status = 2 if name == "serve" else 0
    call(name, killed, *words.get(name, []), *COMMANDS[name], status=status)
    assert capsys.readouterr().err.count(said) == 1
    if name == "export":
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
        assert manifest["finished"] is False
        call("predict", tmp_path / "out", data / "test.txt")
        assert "not finished" not in capsys.readouterr().err
    if name == "predict":
        call(name, run, data / "test.txt")
        assert "not finished" not in capsys.readouterr().err


def test_one_member_of_an_unfinished_run_answers(data, tmp_path, capsys):
    config = dataclasses.replace(tiny.CONFIG, members=3, members_at_once=1)
    run = tmp_path / "run"
    small_runs.stop_after(snm.training(data, config, run), 8)
    call("evaluate", run, "--json")
    assert f"{run} is not finished, this is member 1 of 3 alone, at step" in capsys.readouterr().err


def test_a_training_deletes_the_checkpoint_that_is_being_read(killed, monkeypatch):
    """The newer one is read."""
    folder = RunFolder(killed).checkpoints(2).path(12).parent
    (folder / "12").rename(folder / "later")
    read = Checkpoints.read

    def meanwhile(self, step):
        if step == 8:  # a training has written the next one, and deletes this one
            (folder / "later").rename(folder / "12")
            shutil.rmtree(folder / "8")
        return read(self, step)

    monkeypatch.setattr(Checkpoints, "read", meanwhile)
    snm.load(killed)
    assert [path.name for path in folder.iterdir()] == ["12"]
    # A checkpoint that stays damaged is refused as before.
    (folder / "12" / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="12: found a damaged checkpoint"):
        snm.load(killed)
