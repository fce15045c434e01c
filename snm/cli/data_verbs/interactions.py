"""`snm data interactions`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from snm.importing.options import InteractionsOptions

__all__ = ["Interactions"]


@dataclasses.dataclass
class Interactions(InteractionsOptions):
    """Convert interactions of users with items to a data set for recommendations.

    The file is CSV, JSON lines or Parquet, with a user and an item a row. A point is a user: its
    labels are the items that the user came to last, its features those before. Features and labels
    are the same items, and `snm train` learns to predict items that the user does not have yet. An
    item that comes again counts once. Later, `snm predict` takes lists of items.

    For example:

      snm data interactions ratings.csv --out data/movies --user userId --item movieId --time timestamp --test-fraction 0.1
      snm data interactions clicks.jsonl --out data/clicks --leave-last 1
      snm data interactions clicks.jsonl --out data/may --time at --test-from 2026-05-01
      snm train data/movies --run-dir runs/movies
      snm predict runs/movies --text "1,260,1196" --k 10
      snm data interactions june.csv --out data/june --like runs/movies --user userId --item movieId
    """  # noqa: E501

    source: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE [FILE ...]")]

    def __call__(self) -> None:
        """Runs the verb."""
        from snm.importing.checks import check_interactions

        check_interactions(self)  # before the imports below, which take time
        from snm.importing.logs.interactions import build, summary_lines
        from snm.system.terminal import say, waiting

        for line in summary_lines(self, build(self, waiting)):
            say(line)
