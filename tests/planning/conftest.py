"""The tiny data set, and the plan of a run on it."""

import pytest
import tiny

import snm
from snm.config.resolve import resolve
from snm.planning.forecast import forecast


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="module")
def planned(folder):
    dataset = snm.load_data(folder)
    return forecast(dataset, resolve(tiny.CONFIG, dataset))
