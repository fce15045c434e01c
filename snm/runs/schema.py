"""The schema of the JSON files of a run folder, a class for each file; `typed_json` reads them."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from snm.config.marks import at_least, between
from snm.memory.memory import MemorySettings
from snm.prediction.calibration import Calibration

__all__ = [
    "Adjustment",
    "Count",
    "MemoryRecord",
    "NumLabels",
    "RunOrigin",
    "RunResult",
    "Size",
]

_MOST = 2**31 - 1  # ids are int32
Count = Annotated[int, at_least(0)]
"""A number of points, steps or bytes, say."""
Size = Annotated[int, between(1, _MOST)]
"""A number of features or members."""
NumLabels = Annotated[int, between(2, _MOST)]
"""K."""


@dataclasses.dataclass(frozen=True)
class Adjustment:
    """A logit adjustment that held-out points chose.

    Attributes:
      strength: the score of a label with n training points is lowered by this times log n.
      before: P@1, P@3 and P@5 without it.
      precision: P@1, P@3 and P@5 with it.
    """

    strength: float
    before: tuple[float, ...]
    precision: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class MemoryRecord:
    """The content of `memory.json`: what held-out points chose, and its cost.

    Attributes:
      used: whether the run has a memory.
      held_out: the number of held-out points.
      gain: the gain in the mean of P@1, P@3 and P@5.
      error: the standard error of the gain.
      before: P@1, P@3 and P@5 without a memory.
      precision: P@1, P@3 and P@5 with it.
      settings: of the memory.
      adjustment: the logit adjustment; None if none improves the scores.
      calibration: curves from scores to probabilities, with thresholds; or None.
      points: of the memory, 0 if it is not used.
      bytes: of the memory, 0 if it is not used.
      seconds: the time that the choice took.
      inherited_from: the other run that chose it; or None.
    """

    used: bool
    held_out: Count
    gain: float
    error: float
    before: tuple[float, ...]
    precision: tuple[float, ...]
    settings: MemorySettings
    adjustment: Adjustment | None
    calibration: Calibration | None
    points: Count
    bytes: Count
    seconds: float
    inherited_from: str | None = None


@dataclasses.dataclass(frozen=True)
class RunOrigin:
    """The content of `run.json`: the data of a run, its sizes and its start.

    Attributes:
      data: the path or the name of the training data.
      sha256: of their content.
      num_features: width of the points.
      num_labels: K.
      warm_start: the run whose parameters this one starts from, or None.
      in_memory: whether the data were passed as an object, so that `data` is only a name.
      grown_from: the run that `snm grow` made this one from, or None.
      inherited: the memory inherited from the run of `warm_start`; None is no memory. `unknown`
        without a warm start, and after `snm grow`, where it is known for the old labels only.
      given: the settings whose value was chosen for the data, with the given value, such as `auto`;
        the others were given as in `config.toml`.
    """

    data: str
    sha256: str
    num_features: Size
    num_labels: NumLabels
    warm_start: str | None
    in_memory: bool = False
    grown_from: str | None = None
    inherited: MemoryRecord | Literal["unknown"] | None = "unknown"
    given: dict[str, Any] = dataclasses.field(default_factory=dict)


class RunResult(TypedDict):
    """The required keys of `result.json`; it stays a dict, to which each version may add."""

    metrics: dict[str, float]
    validation: NotRequired[dict[str, Any]]
    members: Size
    steps: Count
    best_step: Count
    skipped_steps: Count
    epochs: float
    epochs_asked: Count
    seconds: float
    examples_per_second: float
    peak_memory_bytes: Count
    data: dict[str, Any]
    versions: dict[str, Any]
    points_without_features: NotRequired[Count]
    without_repeats: NotRequired[dict[str, float]]
    by_label_frequency: NotRequired[tuple[dict[str, float], ...]]
    by_popularity: NotRequired[dict[str, float]]
    memory: NotRequired[dict[str, Any]]
    reliability: NotRequired[dict[str, Any]]
    time: dict[str, Any]
