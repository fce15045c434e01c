"""Data sets in one file of points, with two files that say which rows train and which test.

The Extreme Classification Repository has its small sets so, such as `Delicious_data.txt` with
`delicious_trSplit.txt` and `delicious_tstSplit.txt`. A line of a split file has a row number of
each of several splits; rows count from 1.

This module imports no NumPy.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from snm.data.formats.records import numbered_lines
from snm.errors import InputError
from snm.text import counted

__all__ = ["HEADER", "SplitFiles", "find_rows", "header_error", "is_split", "read_rows_of_part"]

HEADER = re.compile(r"\s*\d+\s+\d+\s+\d+\s*")
"""The first line of a file of points, `points features labels`."""

_USUAL = {"train": "..._trSplit.txt", "test": "..._tstSplit.txt"}
_NAMES = {"train": re.compile(r"tr(n|ain)?[-_ ]?split"), "test": re.compile(r"te?st[-_ ]?split")}


class SplitFiles(NamedTuple):
    """A file of points, and the files of the rows of its parts."""

    points: Path
    train: Path
    test: Path

    @classmethod
    def among(cls, files: Iterable[Path]) -> SplitFiles | None:
        """Those of the first folder of `files` that has one of each; None if there is none."""
        by_folder: dict[Path, list[Path]] = {}
        for path in filter(Path.is_file, files):
            by_folder.setdefault(path.parent, []).append(path)
        found = (cls._of_folder(beside) for _, beside in sorted(by_folder.items()))
        return next(filter(None, found), None)

    @classmethod
    def beside(cls, path: Path) -> SplitFiles | None:
        """Those of a file of points, in its folder; None if there are none."""
        found = cls.in_folder(path.parent)
        return found if found is not None and found.points == path else None

    @classmethod
    def in_folder(cls, folder: Path) -> SplitFiles | None:
        """Those of a folder; None if there are none."""
        with contextlib.suppress(OSError):  # no folder, or one that may not be listed
            return cls.among(folder.iterdir())
        return None

    @classmethod
    def _of_folder(cls, files: list[Path]) -> SplitFiles | None:
        train, test = ([path for path in files if is_split(path, part)] for part in _NAMES)
        if len(train) != 1 or len(test) != 1:
            return None
        texts = [path for path in files if path.name.removesuffix(".gz").endswith(".txt")]
        points = [path for path in texts if not is_split(path) and _has_header(path)]
        return cls(points[0], train[0], test[0]) if len(points) == 1 else None

    @property
    def command(self) -> str:
        """The command that makes a data set of them; it finds the other two by their names."""
        return shlex.join(["snm", "data", "split", str(self.points), "--out", "DATA"])


def find_rows(points: Path, part: str) -> Path:
    """The file beside `points` that has the rows of a part, by its name.

    Raises:
      InputError: none, or several.
    """
    try:
        found = sorted(path for path in points.parent.iterdir() if is_split(path, part))
    except OSError:  # the reader of the points says why
        found = []
    if len(found) != 1:
        names = " and ".join(path.name for path in found) or f"no {_USUAL[part]} beside {points}"
        whose = "training" if part == "train" else part
        raise InputError(f"--{part}", names, f"the file with the rows of the {whose} points")
    return found[0]


def is_split(path: Path, part: str | None = None) -> bool:
    """Whether a file has row numbers of a part, by its name; of any part if `part` is None."""
    patterns = _NAMES.values() if part is None else [_NAMES[part]]
    return any(pattern.search(path.name.lower()) for pattern in patterns)


def _has_header(path: Path) -> bool:
    try:
        return HEADER.fullmatch(next(numbered_lines(path), (1, ""))[1]) is not None
    except InputError:
        return False


def read_rows_of_part(path: Path, num_rows: int, column: int) -> list[int]:
    """Reads the rows of a part, 0-based, in the order of the file.

    Args:
      path: a line has the number of a row, from 1, for each of several splits of the same points;
        blank lines are skipped; `.gz` is unpacked.
      num_rows: number of points.
      column: the split to read, from 1.

    Raises:
      InputError: a file that cannot be read, has no row, or has fewer columns; or a row out of
        range.
    """
    rows = []
    for number, line in numbered_lines(path):
        words = line.split()
        if not words:
            continue
        where = f"{path}:{number}"
        if len(words) < column:
            found = counted(len(words), "column")
            raise InputError(where, found, f"{column}, the one to read, or more")
        word = words[column - 1]
        if not re.fullmatch("[0-9]{1,16}", word) or not 1 <= int(word) <= num_rows:
            raise InputError(where, ascii(word[:40]), f"a row from 1 to {num_rows}")
        rows.append(int(word) - 1)
    if not rows:
        raise InputError(str(path), "no row", "the rows of a part, one a line")
    return rows


def header_error(path: Path, line: str, otherwise: str = "") -> InputError:
    """The error of a file whose first line is a header of features: it is no import file."""
    expected = f"a folder with it as train.txt, which needs no import{otherwise}"
    if (split := SplitFiles.beside(path)) is not None:
        expected = f"`{split.command}`, as {split.train.name} has the training points"
    return InputError(str(path), f"a first line {line[:40]!a}, a header of features", expected)
