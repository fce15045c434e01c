"""The tiny data set, and an undisturbed run on it, for the tests of training."""

import json

import pytest
import tiny


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.dataset(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="module")
def whole(tiny_run):
    """The undisturbed run that others are compared with: its folder and its result."""
    folder = tiny_run / "run"
    return folder, json.loads((folder / "result.json").read_text())
