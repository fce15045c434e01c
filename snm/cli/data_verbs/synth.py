"""`snm data synth`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from snm.errors import InputError, flag_of
from snm.text import counted

if TYPE_CHECKING:
    from snm.data.dataset import Dataset

_TEST_POINTS = 2000  # where no number is given
_MOSTLY = 0.5  # of the entries, from which on it is said that domains share them

__all__ = ["Synth"]


@dataclasses.dataclass
class Synth:
    """Generate a data set of any size, with the statistics of real data sets.

    For example:

      snm data synth /data/made-up --points 100000 --features 50000 --labels 20000
      snm data synth /data/larger --like /data/mine --points 400000 --labels 100000
    """

    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """Folder to write train.txt and test.txt to; must not exist."""
    like: Annotated[str | None, arg(metavar="DATA")] = None
    """Make the points out of those of this data set: words and labels stay as frequent, and rare
    words tell as much of the labels. There are then about --labels labels, or more if the points
    need more."""
    points: int = 8000
    """Number of training points."""
    test_points: Annotated[int | None, arg(metavar="INT")] = None
    """Number of test points; 2000, and with --like no more than its domains have."""
    features: Annotated[int | None, arg(metavar="INT")] = None
    """Number of features; 8000, or with --like enough for each domain's own rare words."""
    labels: int = 4000
    """Number of labels."""
    labels_per_point: Annotated[float | None, arg(metavar="FLOAT")] = None
    """Mean number of labels of a point; 9.3, and with --like that of its points."""
    nonzeros_per_point: Annotated[float | None, arg(metavar="FLOAT")] = None
    """Mean number of nonzero features of a point; 18.9, and with --like that of its points."""
    seed: int = 0
    """Random seed; the same seed gives the same data."""

    def __call__(self) -> None:
        """Writes the data set as text files into a new folder.

        Raises:
          InputError: sizes that do not fit together, or a folder that exists or cannot be created.
        """
        from snm.data.formats.repository_text.writer import write_text
        from snm.system.files.atomic import atomic_folder
        from snm.system.files.checks import check_new
        from snm.system.terminal import say, waiting

        out = self.out
        check_new("", out)
        dataset = _generated(self) if self.like is None else _made_of_another(self)
        with atomic_folder("OUT", out) as beside:
            for name, part in (("train.txt", dataset.train), ("test.txt", dataset.test)):
                if part is not None:
                    with waiting(f"writing {out / name}"):
                        write_text(beside / name, part.features, part.labels)
        points, labels = counted(self.points, "training point"), dataset.train.num_labels
        tests = counted(0 if dataset.test is None else dataset.test.num_points, "test point")
        say(f"{points}, {tests} and {counted(labels, 'label')} in {out}")


def _generated(command: Synth) -> Dataset:
    from snm.data.generated.synthetic import generate
    from snm.system.terminal import waiting

    options = {
        key: value for key, value in dataclasses.asdict(command).items() if value is not None
    }
    del options["out"]
    with waiting("generating"):
        return generate(**{"test_points": _TEST_POINTS, "features": 8000} | options)


def _made_of_another(command: Synth) -> Dataset:
    """The data set of `--like`, enlarged.

    Raises:
      InputError: options that do not go with it, or what `snm.data.generated.enlarged.enlarge`
        refuses.
    """
    from snm.data.generated.enlarged import enlarge, frequent_share
    from snm.data.load import load
    from snm.system.terminal import say, waiting

    for name in ("labels_per_point", "nonzeros_per_point"):
        if (value := getattr(command, name)) is not None:
            raise InputError(flag_of(name), f"{value} beside --like", "one of the two")
    tests = command.test_points
    with waiting(f"enlarging {command.like}"):
        original = load(str(command.like))
        dataset = enlarge(
            original,
            points=command.points,
            test_points=_TEST_POINTS if tests is None else tests,
            labels=command.labels,
            features=command.features,
            fewer=tests is None,
            seed=command.seed,
        )
    if (share := frequent_share(original)) > _MOSTLY:
        say(
            f"note: {share:.0%} of the entries are of features of 1% of the points or more, which "
            f"all domains have in common: labels are harder to tell here than in {command.like}"
        )
    return dataset
