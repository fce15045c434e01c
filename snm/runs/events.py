"""The events that a training run yields, and the counters that a checkpoint keeps."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

__all__ = [
    "COUNTS",
    "Counters",
    "Evaluated",
    "Event",
    "Finished",
    "NonFinite",
    "NonFiniteError",
    "Noted",
    "Probed",
    "Saved",
    "Skipped",
    "Started",
    "Stepped",
]

COUNTS = ("points", "points_without_labels")
"""The metrics of held-out points that are numbers of points."""


class NonFinite(NamedTuple):
    """The first non-finite tensor of a step, and the points of the batch that it comes from.

    Attributes:
      tensor: its description, with a verb.
      points: the indices of these points in the batch, without padding; empty if unknown.
    """

    tensor: str
    points: list[int]

    @classmethod
    def of_loss(cls, loss: float) -> NonFinite:
        """The diagnosis if only the loss is known."""
        if math.isfinite(loss):
            return cls(f"the loss is {loss:.4g}, but its gradient is", [])
        return cls(f"the loss ({loss}) is", [])


class NonFiniteError(ArithmeticError):
    """A loss or a gradient was not finite; the step was not taken.

    The parameters are unchanged, with one exception: if only a gradient of the tower or of the
    feature sums is not finite, class rows, biases and the score multiplier are updated already.

    Args:
      step: see the attributes.
      found: see the attributes.
      points: see the attributes.
      hint: the rest of the message; empty is that of a run.

    Attributes:
      step: the step, counted from 0.
      found: the first non-finite tensor, in the order of computation.
      tensor: its description.
      points: the batch, as row numbers of the training set, counted from 0; -1 - l is the name of
        label l (`--label-text`).
      culprits: the points for which the tensor is not finite; empty if unknown.
    """

    def __init__(self, step: int, found: NonFinite, points: list[int], hint: str = ""):
        self.step, self.found, self.tensor = step, found, found.tensor
        self.points, self.culprits = points, [points[i] for i in found.points]
        rows = _describe_points(points)
        if self.culprits:
            rows = (
                f"{len(self.culprits)} of {len(points)} points, {_describe_points(self.culprits)}"
            )
        super().__init__(
            f"step {step}: {found.tensor} not finite; its batch: {rows}. "
            + (hint or "All are in log.jsonl. The step was not taken, and the checkpoints before "
                       "it are whole. A lower --learning-rate or --score-scale usually helps; "
                       "--on-nonfinite skip drops such batches")
        )  # fmt: skip


def _describe_points(points: list[int]) -> str:
    """Row numbers, and the labels whose names are among the points."""
    rows, labels = [p for p in points if p >= 0], [-1 - p for p in points if p < 0]
    parts = [f"rows {_first_rows(rows)} of train"] if rows or not labels else []
    return " and ".join(parts + ([f"the names of labels {_first_rows(labels)}"] if labels else []))


def _first_rows(rows: list[int]) -> str:
    shown = ", ".join(str(row) for row in rows[:8])
    return shown if len(rows) <= 8 else f"{shown}, ..."


@dataclasses.dataclass
class Counters:
    """The counters of the training loop, saved with every checkpoint.

    Attributes:
      step: steps done.
      best_score: the best value of the monitored metric so far, or None.
      best_step: the step with the best value.
      stale: evaluations since then.
      seconds: time spent training, without evaluation.
      stopped: whether early stopping ended the run.
      skipped: steps skipped because their loss or gradient was not finite.
      skipped_in_a_row: steps skipped since the last step that was not.
    """

    step: int = 0
    best_score: float | None = None
    best_step: int = 0
    stale: int = 0
    seconds: float = 0.0
    stopped: bool = False
    skipped: int = 0
    skipped_in_a_row: int = 0

    def record(self, score: float, step: int, patience: int) -> bool:
        """Records an evaluation, and sets `stopped` if early stopping ends the run.

        Args:
          score: the value of the monitored metric. NaN, such as the AUC of points without labels,
            is below every number.
          step: steps done.
          patience: evaluations without a better score after which to stop; 0 never stops.

        Returns:
          Whether the score is the best so far.
        """
        best = self.best_score
        is_best = best is None or score > best or (math.isnan(best) and not math.isnan(score))
        if is_best:
            self.best_score, self.best_step, self.stale = score, step, 0
        else:
            self.stale += 1
            self.stopped = bool(patience) and self.stale >= patience
        return is_best


@dataclasses.dataclass(frozen=True)
class Started:
    """A phase starts.

    Attributes:
      phase: its name, such as `train` or `refit`.
      step: steps done before, if the run continues.
      last_step: the step after which the phase ends.
      steps_per_epoch: the steps of an epoch.
      num_points: the points that the phase trains on.
      members_at_once: how many members train side by side.
    """

    phase: str
    step: int
    last_step: int
    steps_per_epoch: int
    num_points: int
    members_at_once: int = 1


@dataclasses.dataclass(frozen=True)
class Stepped:
    """A dispatch of one or more steps is finished.

    Attributes:
      step: steps done.
      points: the points of the dispatch.
      loss: the mean over the points, without skipped steps; NaN if all steps were skipped.
      seconds: time since the previous dispatch.
    """

    step: int
    points: int
    loss: float
    seconds: float


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """The validation points were evaluated.

    Attributes:
      step: steps done.
      metrics: `metrics` of `snm.evaluation.evaluate.evaluate_points`.
      best: whether the monitored metric is the best so far.
    """

    step: int
    metrics: dict[str, float]
    best: bool


@dataclasses.dataclass(frozen=True)
class Saved:
    """The checkpoint of `step` is completely written; training may be some steps further."""

    step: int


@dataclasses.dataclass(frozen=True)
class Probed:
    """The caller's probe was called: its result, and the seconds trained so far."""

    step: int
    seconds: float
    found: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Skipped:
    """A step was skipped: its first non-finite tensor, and the training rows of its batch."""

    step: int
    tensor: str
    points: list[int]


@dataclasses.dataclass(frozen=True)
class Noted:
    """A message for the user."""

    step: int
    text: str


@dataclasses.dataclass(frozen=True)
class Finished:
    """The run is complete: the content of result.json."""

    result: dict[str, Any]


Event = Started | Stepped | Evaluated | Saved | Probed | Skipped | Noted | Finished
"""What `snm.training` yields."""
