"""The tiny data set, and the plan of a run on it."""

import pytest
import tiny
from small_runs import data as dataset
from small_runs import folder

from snm.config.resolve import resolve
from snm.planning.forecast import forecast

__all__ = ["dataset", "folder", "planned"]


@pytest.fixture(scope="module")
def planned(dataset):
    return forecast(dataset, resolve(tiny.CONFIG, dataset))
