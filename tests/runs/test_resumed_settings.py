"""What a run keeps of its settings as they were given, beside the resolved ones."""

import dataclasses

import tiny

import snm
from snm.config.settings import Config
from snm.runs.folder import RunFolder

OPEN = dataclasses.replace(tiny.CONFIG, epochs="few", mined=8, members="auto")
"""Of 60 points, with 3 members of `auto`."""


def given(run):
    return RunFolder(run).read_origin().given


def test_a_run_keeps_the_settings_as_they_were_given(tmp_path):
    data, run = tiny.dataset(tmp_path / "data"), tmp_path / "run"
    snm.train(data, OPEN, run)
    found, resolved = given(run), RunFolder(run).settings()
    assert found["epochs"] == "few" and found["members"] == found["memory"] == "auto"
    assert "mined" not in found and "dim" not in found
    assert Config(**dataclasses.asdict(resolved) | found) == OPEN
    before = (run / "run.json").read_bytes()
    snm.train(data, OPEN, run)
    assert (run / "run.json").read_bytes() == before


def test_a_run_that_goes_on_keeps_what_it_began_with(tmp_path):
    """But for the settings that may change, which the last call gives."""
    data, run = tiny.dataset(tmp_path / "data"), tmp_path / "run"
    snm.train(data, OPEN, run)
    begun = given(run)
    snm.train(data, dataclasses.replace(snm.read_config(run / "config.toml"), members=3), run)
    now = given(run)
    assert begun.pop("epochs") == "few" and begun.pop("members_at_once") == "auto"
    assert now == begun and now["members"] == "auto"
