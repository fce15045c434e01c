"""Settings that follow from the data: what `auto` stands for.

Each is a function of a number of the data set, never of its name. How they were chosen, on parts
of train held out, stands in `experiments/README.md`. B has its rule in `sampling.auto_size`.
"""

from __future__ import annotations

import math

__all__ = [
    "auto_dim",
    "auto_epochs",
    "auto_learning_rate",
    "auto_members",
    "auto_score_scale",
    "takes_exponentials",
]

_VISITS = 250_000
_FEWEST, _MOST = 3, 30


def auto_epochs(num_points: int) -> int:
    """Passes over the points for `--epochs auto`: a quarter of a million visits, 3 to 30 passes.

    Small sets gain from more passes than larger ones, at the same number of steps.

    Example:
      >>> [auto_epochs(n) for n in (0, 4_880, 12_920, 24_000, 1_186_239)]
      [30, 30, 19, 10, 3]
    """
    return min(_MOST, max(_FEWEST, round(_VISITS / max(1, num_points))))


def auto_members(num_points: int) -> int:
    """Models for `--members auto`: 3 where the visits allow more than the fewest passes, else 1.

    Three of dimension 256 cost minutes at this size, and answer better than one of 512.

    Example:
      >>> [auto_members(n) for n in (4_880, 83_333, 83_334)]
      [3, 3, 1]
    """
    return 3 if num_points * _FEWEST <= _VISITS else 1


def auto_dim(members: int) -> int:
    """The dimension for `--dim auto`: 512, as the paper's, for one model; 256 each for several.

    Example:
      >>> [auto_dim(members) for members in (1, 3)]
      [512, 256]
    """
    return 512 if members == 1 else 256


def takes_exponentials(loss: str, transformation: str = "exponential") -> bool:
    """Whether a loss takes exponentials of scores, so that their multiplier is its sharpness."""
    return loss not in ("bowl", "powl", "ranksvm") and transformation != "linear"


def auto_learning_rate(loss: str, transformation: str = "exponential") -> float:
    """The rate for `--learning-rate auto`: 20, as for a softmax, unless the loss is flatter.

    RankCosine lies within 1/2, smoothed DCG's gradient is p (1 - p) for a share p that is small at
    first, RankSVM's scores have no multiplier, and that of linear ones cancels.

    Example:
      >>> auto_learning_rate("softmax"), auto_learning_rate("rankcosine")
      (20.0, 120.0)
    """
    return _RATES.get((loss, transformation), 20.0)


_RATES: dict[tuple[str, str], float] = {
    ("listnet", "linear"): 600.0,
    ("listnet", "sigmoid"): 200.0,
    ("listmle", "linear"): 600.0,
    ("rankcosine", "exponential"): 120.0,
    ("rankcosine", "linear"): 2500.0,
    ("smoothed-dcg", "exponential"): 120.0,
    ("ranksvm", "exponential"): 60.0,
}
"""By loss and transformation: of two or three for each, the best on held out points of
`citeulike-t-14k`. Where labels are few their rows are stepped more often, and a tenth may suit."""


def auto_score_scale(num_labels: int) -> float:
    """The multiplier of scores in [-1, 1] for `--score-scale auto` under a softmax: 1 + ln K.

    A softmax over K labels, the positive's score 1 and all others 0, then gives the positive
    e^s / (e^s + K - 1), about e / (e + 1) = 0.73 at any K: sure enough to be fitted, not so sure
    that a point is done with before its hardest negatives are pushed away.

    Example:
      >>> [round(auto_score_scale(k), 1) for k in (150, 983, 13_964, 40_981, 2_812_281)]
      [6.0, 7.9, 10.5, 11.6, 15.8]
    """
    return 1.0 + math.log(num_labels)
