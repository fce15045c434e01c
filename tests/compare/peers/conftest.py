"""A data set so small that scores follow by hand, for the tests of packages."""

from pathlib import Path

import pytest

_TRAIN = "4 3 6\n0 0:3\n0,1 1:1\n2 0:1 2:2\n3,4 2:1\n"
_TEST = "2 3 6\n0,5 0:2 1:2\n1 2:1\n"


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Four training points, two test points, six labels; labels 0 to 5 have 2, 1, 1, 1, 1 and 0
    training points."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "train.txt").write_text(_TRAIN)
    (folder / "test.txt").write_text(_TEST)
    return str(folder)
