"""Settings that follow from the data: what `auto` stands for.

Each is a function of a number of the data set, never of its name. How they were chosen, on parts
of train held out, stands in `experiments/README.md`. B has its rule in `sampling.auto_size`.
"""

from __future__ import annotations

import math

__all__ = ["auto_epochs", "auto_score_scale"]

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
