"""`snm data split`."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from snm.errors import InputError
from snm.text import counted

__all__ = ["Split"]


@dataclasses.dataclass
class Split:
    """Make a data set of one file of points, and the row numbers of its training and test points.

    The Extreme Classification Repository has its small sets so: Delicious, Bibtex and Mediamill.
    Ids of features and labels stay as they are.

    For example:

      snm data split Delicious_data.txt --out data/delicious
      snm data split points.txt --train rows/train.txt --test rows/test.txt --out data/mine
    """

    points: Annotated[Positional[Path], arg(metavar="FILE")]
    """All points in the repository's text form, with a header; may be a .gz file."""
    out: Path
    """Folder to create; must not exist."""
    train: Path | None = None
    """Rows of the training points, one a line; rows count from 1. By default the file beside FILE
    with a name such as ..._trSplit.txt."""
    test: Path | None = None
    """Rows of the test points; by default a file such as ..._tstSplit.txt."""
    column: int = 1
    """Column of --train and --test to read: each is another split of the points."""

    def __call__(self) -> None:
        """Runs the verb.

        Raises:
          InputError: files that cannot be used, or a folder that exists or cannot be created.
        """
        from snm.system.files.atomic import atomic_folder
        from snm.system.files.checks import check_is_file, check_new

        check_new("--out", self.out)
        check_is_file(self.points, "a file of points")
        if self.column < 1:
            raise InputError("--column", f"{self.column}", "1 or more")
        from snm.data.formats.split_files import SplitFiles, find_rows
        from snm.data.split import write_parts  # imports NumPy
        from snm.system.terminal import say, waiting

        files = SplitFiles(
            self.points,
            self.train or find_rows(self.points, "train"),
            self.test or find_rows(self.points, "test"),
        )
        with atomic_folder("--out", self.out) as beside, waiting(f"writing {self.out}"):
            cut = write_parts(files, beside, column=self.column)
        parts = f"{cut.train:,} training and {counted(cut.test, 'test point')}"
        widths = f"{counted(cut.features, 'feature')}, {counted(cut.labels, 'label')}"
        say(f"{parts}, {widths} in {self.out}")
        if cut.both:
            points = counted(cut.both, "point")
            say(f"{points} in train and in test: metrics of these show what was learned by heart")
        if cut.repeats:
            rows = counted(cut.repeats, "repeated row")
            say(f"{rows} in train or in test: their points count several times")
        if cut.neither:
            say(f"{counted(cut.neither, 'point')} in neither part: left out")
        say(f"next: snm train {shlex.quote(str(self.out))} --run-dir RUN")
