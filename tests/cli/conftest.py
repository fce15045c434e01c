"""Data and runs that several files of tests share."""

import pytest
import tiny
from cli.text_runs import run_of_texts
from command_line import call


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("data") / "tiny", names=True)


@pytest.fixture(scope="session")
def run(data, tmp_path_factory):
    """A finished run."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    call("train", data, "--run-dir", folder, *tiny.FLAGS)
    return folder


@pytest.fixture(scope="session")
def text_run(tmp_path_factory):
    return run_of_texts(tmp_path_factory.mktemp("texts"))
