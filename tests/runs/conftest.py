"""Data and runs that several files of tests share."""

import json

import pytest
import tiny

import snm


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="module")
def data(folder):
    return snm.load_data(folder)


@pytest.fixture(scope="module")
def whole(tiny_run):
    """An uninterrupted run, the reference for the others: its folder and its result."""
    folder = tiny_run / "run"
    return folder, json.loads((folder / "result.json").read_text())
