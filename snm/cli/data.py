"""`snm data stats` and `snm data synth`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from snm.errors import InputError

__all__ = ["Stats", "Synth"]


@dataclasses.dataclass
class Stats:
    """Describe a data set: the columns of Table 1 of the paper, and more statistics.

    For example:

      snm data stats path/to/eurlex
    """

    data: Annotated[Positional[str], arg(metavar="DATA")]
    """Folder of the data set, or `synthetic`."""
    json: bool = False
    """Print one JSON object."""

    def __call__(self) -> None:
        """Runs the verb."""
        _print_stats(self)


@dataclasses.dataclass
class Synth:
    """Generate a data set of any size, with the statistics of real data sets.

    For example:

      snm data synth /data/made-up --points 100000 --features 50000 --labels 20000
    """

    out: Annotated[Positional[Path], arg(metavar="OUT")]
    """Folder to write train.txt and test.txt to; must not exist."""
    points: int = 8000
    """Number of training points."""
    test_points: int = 2000
    """Number of test points."""
    features: int = 8000
    """Number of features."""
    labels: int = 4000
    """Number of labels."""
    labels_per_point: float = 9.3
    """Mean number of labels of a point."""
    nonzeros_per_point: float = 18.9
    """Mean number of nonzero features of a point."""
    seed: int = 0
    """Random seed; the same seed gives the same data."""

    def __call__(self) -> None:
        """Runs the verb."""
        _write_synthetic(self)


def _print_stats(command: Stats) -> None:
    from rich.table import Table

    from snm.data.load import load
    from snm.data.statistics import describe
    from snm.system.terminal import console, displayed, waiting

    with waiting(f"reading {command.data}"):
        found = describe(load(command.data))
    if command.json:
        print(json.dumps(found))
        return
    table = Table(title=found.pop("name", command.data), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in found.items():
        table.add_row(name.replace("_", " "), displayed(value))
    console.print(table)


def _write_synthetic(command: Synth) -> None:
    """Writes the data set as text files into a new folder.

    Raises:
      InputError: sizes that do not fit together, or a folder that exists or cannot be created.
    """
    from snm.data.formats.dispatch import write_text
    from snm.data.synthetic import generate
    from snm.system.files import made_whole
    from snm.system.terminal import say, waiting

    options = dataclasses.asdict(command)
    out: Path = options.pop("out")
    if out.exists():
        raise InputError(str(out), "a file or folder of that name", "a new folder")
    with waiting("generating"):
        dataset = generate(**options)
    with made_whole("OUT", out) as beside:
        for name, part in (("train.txt", dataset.train), ("test.txt", dataset.test)):
            if part is not None:
                with waiting(f"writing {out / name}"):
                    write_text(beside / name, part.features, part.labels)
    say(f"{command.points} training and {command.test_points} test points in {out}")
