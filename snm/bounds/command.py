"""`snm bounds` on the command line; everything heavy is imported when it runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

__all__ = ["Bounds"]


@dataclasses.dataclass
class Bounds:
    """Evaluate generalization bounds on a trained model, each term beside what test points say.

    Margins of the training points, their share below each margin rho, and the right sides of
    Theorems 6 and 5 of Reddi et al. (2019): as printed, with every factor that the theorem hides
    set to 1, and as proved, without hidden factors. A bound that says nothing is called vacuous,
    with the number of points from which on it would say something.

    For example:

      snm bounds runs/eurlex
      snm bounds runs/eurlex --k 5 --delta 0.01
      snm bounds runs/eurlex --points 20000 --json
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run."""
    data: str | None = None
    """Data set with test points; by default the one of the run."""
    k: int | None = None
    """k of the retrieval loss; that of the run's settings by default."""
    delta: float = 0.05
    """The bounds hold with probability 1 - delta, for all margins at once."""
    rho: tuple[float, ...] = ()
    """Margins, fixed before the data are seen; halves of the largest possible one by default."""
    points: int | None = None
    """Measure margins on so many training points, drawn at random; all by default."""
    json: bool = False
    """Print one JSON object."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.bounds.cli import run_bounds

        run_bounds(self)
