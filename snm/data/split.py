"""Writes a data set of one file of points, cut by files of row numbers."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from snm.data.formats.repository_text.reader import read_text
from snm.data.formats.repository_text.writer import write_text
from snm.data.formats.split_files import SplitFiles, read_rows_of_part

__all__ = ["Cut", "write_parts"]


class Cut(NamedTuple):
    """What was written.

    Attributes:
      train: number of training points.
      test: number of test points.
      features: d.
      labels: K.
      both: number of rows in train and in test.
      neither: number of rows in none of them.
      repeats: number of times that train or test has a row again.
    """

    train: int
    test: int
    features: int
    labels: int
    both: int
    neither: int
    repeats: int


def write_parts(files: SplitFiles, folder: Path, *, column: int = 1) -> Cut:
    """Writes `train.txt` and `test.txt`; ids of features and labels stay as they are.

    Args:
      files: the points in the one-file text form, and the rows of train and test.
      folder: an existing folder.
      column: the split to take, from 1.

    Raises:
      InputError: as `read_text` and `read_rows_of_part`, or a file that cannot be written.
    """
    features, labels = read_text(files.points)
    train = read_rows_of_part(files.train, features.shape[0], column)
    test = read_rows_of_part(files.test, features.shape[0], column)
    for name, rows in (("train.txt", train), ("test.txt", test)):
        write_text(folder / name, features[rows], labels[rows])
    of_train, of_test = set(train), set(test)
    return Cut(
        len(train),
        len(test),
        features.shape[1],
        labels.shape[1],
        both=len(of_train & of_test),
        neither=features.shape[0] - len(of_train | of_test),
        repeats=len(train) - len(of_train) + len(test) - len(of_test),
    )
