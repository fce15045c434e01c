"""`snm grow` on the command line; everything heavy is imported when it runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

__all__ = ["Grow"]


@dataclasses.dataclass
class Grow:
    """Add labels to a trained model: a new run, whose old labels score as they did.

    A new label starts at the mean embedding of the training points of DATA that have it; without
    such points, at the embedding of its name (runs on texts); else at random. Then train on.

    For example:

      snm grow runs/a --labels new.txt --data data/grown --output runs/grown
      snm train data/grown --run-dir runs/b --warm-start runs/grown
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a finished run."""
    labels: Path
    """Names of the new labels, one a line; their ids follow the old ones."""
    output: Path
    """Folder of the new run; must not exist."""
    data: str | None = None
    """Data set of old and new labels together, old ones first."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.grow.cli import run_grow

        run_grow(self)
