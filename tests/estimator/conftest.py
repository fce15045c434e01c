"""The tiny data set, for the tests of the classifier."""

import pytest
import tiny


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.dataset(tmp_path_factory.mktemp("estimator") / "tiny")
