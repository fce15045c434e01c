"""Settings that follow from the data: what `auto` stands for.

Each is a function of a number of the data set, never of its name. How they were chosen, on parts
of train held out, stands in `experiments/README.md`. B has its rule in `sampling.auto_size`.
"""

from __future__ import annotations

import math

__all__ = [
    "auto_drops_seen",
    "auto_epochs",
    "auto_input_dropout",
    "auto_learn_scale",
    "auto_members",
    "auto_mined",
    "auto_score_scale",
    "auto_size",
]

_VISITS = 250_000
_FEWEST, _MOST = 3, 30
_MINED_LABELS = 1 << 18
_MANY_POINTS = 100
_SURELY_SEEN = 20


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

    Three cost minutes at this size, and answer better than one.

    Example:
      >>> [auto_members(n) for n in (4_880, 83_333, 83_334)]
      [3, 3, 1]
    """
    return 3 if num_points * _FEWEST <= _VISITS else 1


def auto_mined(num_labels: int) -> int:
    """K' for `--mined auto`: 32, or more where there are few labels, up to 256.

    The hardest of many negatives are labels that a point does not have, and few of them teach the
    most. Of a thousand labels they are often labels that it should have, or that were left out;
    more of them, down to easier ones, outweigh these.

    Example:
      >>> [auto_mined(k) for k in (150, 983, 3_993, 13_330, 670_091)]
      [256, 256, 64, 32, 32]
    """
    power = round(math.log2(_MINED_LABELS / num_labels))
    return 1 << min(8, max(5, power))


def auto_input_dropout(points_of_label: float) -> float:
    """The share for `--input-dropout auto`: 0.5, or 0.3 where a label has a hundred points.

    What is learned of a label from a few points is soon what these points happen to share; from
    hundreds it is not, and features left out are then missed.

    Args:
      points_of_label: the mean over labels of the training points that have it.

    Example:
      >>> [auto_input_dropout(points) for points in (4.3, 14.0, 250.2)]
      [0.5, 0.5, 0.3]
    """
    return 0.3 if points_of_label >= _MANY_POINTS else 0.5


def auto_learn_scale(points_of_label: float) -> bool:
    """Whether `--learn-score-scale auto` learns the multiplier: where a label has a hundred points.

    It grows for as long as that fits the training points better. With hundreds of points a label
    it grows to what the labels are worth; with a few, until these few are learned by heart.

    Args:
      points_of_label: the mean over labels of the training points that have it.

    Example:
      >>> [auto_learn_scale(points) for points in (4.3, 14.0, 250.2)]
      [False, False, True]
    """
    return points_of_label >= _MANY_POINTS


def auto_drops_seen(together: int, expected: float) -> bool:
    """Whether `--seen auto` drops labels that are among a point's own features.

    Where both are the same items, such as the places that somebody has been to and those that come
    next, no point may have a label that is among its features. A sparse linear model learns that
    item by item; embeddings put an item next to itself, and would answer with it first.

    Args:
      together: entries (point, item) of the training set that are a feature and a label.
      expected: how many chance would make, were features and labels drawn apart.

    Example:
      >>> auto_drops_seen(0, 536.1), auto_drops_seen(1, 536.1), auto_drops_seen(0, 3.0)
      (True, False, False)
    """
    return together == 0 and expected >= _SURELY_SEEN


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


def auto_size(num_labels: int, *, members: int = 1) -> int:
    """The number of negatives B for `--sampled auto`.

    For several members 2048, or all others where there are fewer: what the sample of one misses,
    that of another has. For one member all others up to K = 4097; above that the smallest power of
    two that is at least K / 8, held between 4096 and 32768. The paper samples 1024 labels of 13
    thousand and 32768 from 325 thousand on; where it varies B, more is better, so small K gets more
    than that.

    Args:
      num_labels: K, at least 2.
      members: models whose scores are added.

    Returns:
      B, from 1 to K - 1.

    Raises:
      ValueError: K is below 2: there is no other label.

    Example:
      >>> [auto_size(k) for k in (2, 3_993, 13_330, 205_443, 670_091)]
      [1, 3992, 4096, 32768, 32768]
      >>> [auto_size(k, members=3) for k in (983, 40_981)]
      [982, 2048]
    """
    if num_labels < 2:
        raise ValueError(f"sampling needs at least 2 labels, found {num_labels}")
    if members > 1:
        return min(num_labels - 1, 2048)
    power = 1 << (-(-num_labels // 8) - 1).bit_length()
    return min(num_labels - 1, max(4096, min(power, 32768)))
