"""What a run keeps of its settings as they were given, beside the resolved ones."""

import dataclasses
import shutil

import pytest
import tiny

import snm
from snm.config.settings import Config
from snm.runs.folder import RunFolder

OPEN = dataclasses.replace(
    tiny.CONFIG, epochs="few", mined=8, members="auto", checkpoint_every=1000
)
"""Of 60 points, with 3 members of `auto`."""


def given(run):
    return RunFolder(run).read_origin().given


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    place = tmp_path_factory.mktemp("begun")
    data = tiny.dataset(place / "data")
    snm.train(data, OPEN, place / "run")
    return data, place / "run"


def test_a_run_keeps_the_settings_as_they_were_given(begun):
    data, run = begun
    found, resolved = given(run), RunFolder(run).settings()
    assert found["epochs"] == "few" and found["members"] == found["memory"] == "auto"
    assert "mined" not in found and "dim" not in found
    assert Config(**dataclasses.asdict(resolved) | found) == OPEN
    before = (run / "run.json").read_bytes()
    snm.train(data, OPEN, run)
    assert (run / "run.json").read_bytes() == before


def test_a_run_that_goes_on_keeps_what_it_began_with(begun, tmp_path):
    """But for the settings that may change, which the last call gives."""
    data, run = begun[0], shutil.copytree(begun[1], tmp_path / "run")
    before = given(run)
    snm.train(data, dataclasses.replace(snm.read_config(run / "config.toml"), members=3), run)
    now = given(run)
    assert before.pop("epochs") == "few" and before.pop("members_at_once") == "auto"
    assert now == before and now["members"] == "auto"
