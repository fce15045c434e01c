"""What happens while a run trains: its events, and the counters that a checkpoint keeps."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

__all__ = [
    "Evaluated",
    "Event",
    "Finished",
    "NonFinite",
    "NonFiniteError",
    "Noted",
    "Probed",
    "Progress",
    "Saved",
    "Skipped",
    "Started",
    "Stepped",
]


class NonFinite(NamedTuple):
    """The first non-finite tensor, and the batch rows it came from (none where unknown)."""

    tensor: str
    places: list[int]

    @classmethod
    def of_loss(cls, loss: float) -> NonFinite:
        """What the loss alone tells."""
        if math.isfinite(loss):
            return cls(f"the loss is {loss:.4g}, but its gradient is", [])
        return cls(f"the loss ({loss}) is", [])


class NonFiniteError(ArithmeticError):
    """A loss or a gradient was not finite; no parameter was changed by that step.

    Attributes:
      step: counted from 0.
      tensor: the first on the way from the inputs to the gradients that is not finite.
      points: of the batch, as row numbers of the training set, counted from 0.
      culprits: those of them where the tensor is not finite, where that can be told.
    """

    def __init__(self, step: int, found: NonFinite, points: list[int], hint: str = ""):
        self.step, self.tensor = step, found.tensor
        self.points, self.culprits = points, [points[i] for i in found.places if i < len(points)]
        rows = f"rows {_few(points)} of train"
        if self.culprits:
            rows = (
                f"{len(self.culprits)} of {len(points)} points, rows {_few(self.culprits)} of train"
            )
        super().__init__(
            f"step {step}: {found.tensor} not finite; its batch: {rows} (all in log.jsonl). "
            + (hint or "The step was not taken, and the checkpoints before it are whole. A lower "
                       "--learning-rate or --score-scale usually helps; --on-nonfinite skip drops "
                       "such batches")
        )  # fmt: skip


def _few(rows: list[int]) -> str:
    shown = ", ".join(str(row) for row in rows[:8])
    return shown if len(rows) <= 8 else f"{shown}, ..."


@dataclasses.dataclass
class Progress:
    """The loop's own numbers, saved with every checkpoint.

    Attributes:
      step: steps done.
      best_score: of the monitored metric so far, or None.
      best_step: the step it was reached at.
      stale: evaluations since then.
      seconds: spent training, evaluation left out.
      stopped: whether early stopping ended the run.
      skipped: steps that were not taken, their loss or gradient not being finite.
      skipped_in_a_row: of these, those since the last step that was taken.
    """

    step: int = 0
    best_score: float | None = None
    best_step: int = 0
    stale: int = 0
    seconds: float = 0.0
    stopped: bool = False
    skipped: int = 0
    skipped_in_a_row: int = 0


@dataclasses.dataclass(frozen=True)
class Started:
    """A phase begins: `train` or `refit`, where it stands, where it ends, points a step."""

    phase: str
    step: int
    last_step: int
    steps_per_epoch: int
    num_points: int


@dataclasses.dataclass(frozen=True)
class Stepped:
    """A dispatch was finished: steps done, its points, their mean loss, seconds since the last.

    The loss is over the steps that were taken; NaN where all were skipped.
    """

    step: int
    points: int
    loss: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """The held-out points were scored: name -> value, and whether it is the best so far."""

    step: int
    metrics: dict[str, float]
    best: bool


@dataclasses.dataclass(frozen=True)
class Saved:
    """A checkpoint is whole on the disk; some steps may have been taken since."""

    step: int


@dataclasses.dataclass(frozen=True)
class Probed:
    """The caller's probe looked at the parameters: what it found, and the seconds trained."""

    step: int
    seconds: float
    found: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Skipped:
    """A step was not taken: which tensor was not finite, and the rows of train in its batch."""

    step: int
    tensor: str
    points: list[int]


@dataclasses.dataclass(frozen=True)
class Noted:
    """Something that whoever looks at the run should know, in words."""

    step: int
    text: str


@dataclasses.dataclass(frozen=True)
class Finished:
    """The run is over: the content of result.json."""

    result: dict[str, Any]


Event = Started | Stepped | Evaluated | Saved | Probed | Skipped | Noted | Finished
"""Whatever `snm.training` yields."""
