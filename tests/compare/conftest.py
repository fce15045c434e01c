"""A small data set, which no test of comparisons changes."""

import pytest
import tiny

import snm


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tiny.write(tmp_path_factory.mktemp("compare") / "tiny")


@pytest.fixture(scope="session")
def dataset(folder):
    return snm.load_data(folder)
