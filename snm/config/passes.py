"""The rules behind `--epochs auto` and `few`, and how much of a point such a training leaves out.

They were chosen as those of `snm.config.auto`.
"""

from __future__ import annotations

__all__ = [
    "FREQUENT",
    "MOST_OF_LONG",
    "auto_epochs",
    "auto_input_dropout",
    "auto_may_drop",
    "auto_more_visits",
    "auto_most_passes",
    "few_epochs",
]

FREQUENT = 100
"""Training points of a label that has many."""
MOST_OF_LONG = 4
"""Passes that points get for their length, at most."""
_VISITS = 100_000  # of points, in a training by `--epochs auto`
_MORE_VISITS = 250_000  # the same where `auto_more_visits`
_MOST_PASSES = 30
_MOST_OF_RARE = 10  # the same where class rows start at centroids, and labels have few points
_FEWEST_VISITS = 10_000  # which the most passes allow in any case, if 30 are as many
_FEW_POINTS = 30  # training points of a label below which it has few
_TWO_PASSES = 50_000  # points from which 2 passes are enough, else 3
_ONE_PASS = 250_000  # visits of a pass from which one is enough
_FREQUENT_FEATURE = 200  # training points of a feature that has many
_FEW_VISITS = 4000  # of points, by `--epochs few`
_LONG_PASS = 20  # features a point for each of which there is a pass, up to `MOST_OF_LONG`
_PASSES_WITHOUT_DROPOUT = 3
_LOST = (0.05, 0.08)  # evidence lost: full dropout below, none above


def auto_epochs(
    num_points: int,
    features: float,
    *,
    item_splits: int = 0,
    more: bool = False,
    most: int = _MOST_PASSES,
) -> int:
    """Passes over the points for `--epochs auto`: 100 thousand visits, at most 30 or 10 passes.

    Class rows start near their end, and more visits gain little or overfit them. At the same number
    of steps, small sets gain more from further passes than large ones. So there are at least 3
    passes, 2 from 50 thousand points on, and a single one where that makes a quarter of a million
    visits: further ones take most of a training's time there, and change little. Long points need
    more: a pass moves a feature's row in proportion to its value, which is lower in points of many
    features. So they get one for every 20 features at least, up to 4.

    Args:
      num_points: training points.
      features: the mean over points of how many they have.
      item_splits: further splits of each point, visited too. With them, class rows start at random,
        and 3 passes are the fewest, unless one makes a quarter of a million visits.
      more: a quarter of a million visits, and at least 3 passes, unless one makes as many; see
        `auto_more_visits`.
      most: the most passes; see `auto_most_passes`.

    Example:
      >>> [auto_epochs(n, 20) for n in (0, 1_123, 4_500, 20_755, 47_000, 162_657, 1_186_239)]
      [30, 30, 22, 5, 3, 2, 1]
      >>> [auto_epochs(n, 20, most=10) for n in (450, 4_500, 20_755)]
      [10, 10, 5]
      >>> [auto_epochs(n, 20, more=True) for n in (4_880, 12_920, 24_000, 162_657, 1_186_239)]
      [30, 19, 10, 3, 1]
      >>> [auto_epochs(n, 10, item_splits=1) for n in (1_000, 12_732, 24_000, 341_736)]
      [30, 4, 3, 1]
      >>> [auto_epochs(n, 236) for n in (6_652, 162_657, 1_186_239)]
      [15, 4, 4]
      >>> [auto_epochs(490_449, features) for features in (20, 43, 76)]
      [1, 2, 4]
    """
    of_pass = _visits_of_pass(num_points, item_splits)
    if of_pass >= _ONE_PASS:
        fewest = 1
    else:
        fewest = 3 if more or item_splits or num_points < _TWO_PASSES else 2
    visits = _MORE_VISITS if more else _VISITS
    passes = max(fewest, round(visits / of_pass), _passes_of_long(features))
    return min(most, passes)


def few_epochs(num_points: int, features: float, *, item_splits: int = 0) -> int:
    """Passes over the points for `--epochs few`: 1, or more for few points or long ones.

    Where class rows start at centroids and a memory answers beside them, further passes add less
    than half of a percent, unless one pass makes fewer than 2667 visits (4000 visits, rounded to
    whole passes), or points are long: those take as many as `auto_epochs` gives them at least. Few
    points take up to 30 passes: 4 passes over 200 points are a handful of steps.

    Args:
      num_points: training points.
      features: the mean over points of how many they have.
      item_splits: further splits of each point, visited too.

    Example:
      >>> [few_epochs(n, 20) for n in (60, 200, 450, 1_123, 4_500, 162_657)]
      [30, 20, 9, 4, 1, 1]
      >>> [few_epochs(15_511, features) for features in (20, 29, 45, 70, 673)]
      [1, 1, 2, 4, 4]
    """
    of_few = round(_FEW_VISITS / _visits_of_pass(num_points, item_splits))
    return min(_MOST_PASSES, max(1, of_few, _passes_of_long(features)))


def _visits_of_pass(num_points: int, item_splits: int) -> int:
    return (1 + item_splits) * max(1, num_points)


def _passes_of_long(features: float) -> int:
    return min(MOST_OF_LONG, round(features / _LONG_PASS))


def auto_most_passes(class_init: str, points_of_label: float, num_points: int) -> int:
    """The most passes of `--epochs auto`: 30, or 10 where few points are soon learned by heart.

    Few points leave room for many passes in 100 thousand visits. Where labels have fewer than 30
    points, rows that start at centroids gain nothing clear after 10 passes, which are a third of
    the time (`experiments/results/small-sets-passes.json`). But 10 passes over a few hundred points
    are a few steps: there the most is what makes 10 thousand visits
    (`experiments/results/few-points-passes.json`).

    Args:
      class_init: centroid or random.
      points_of_label: the mean over labels of the training points that have it.
      num_points: training points.

    Example:
      >>> [auto_most_passes("centroid", points, 4_500) for points in (4.3, 42.4)]
      [10, 30]
      >>> [auto_most_passes("centroid", 4.3, num_points) for num_points in (250, 408, 900)]
      [30, 25, 11]
      >>> auto_most_passes("random", 4.3, 4_500)
      30
    """
    if class_init != "centroid" or points_of_label >= _FEW_POINTS:
        return _MOST_PASSES
    of_few = round(_FEWEST_VISITS / max(1, num_points))
    return min(_MOST_PASSES, max(_MOST_OF_RARE, of_few))


def auto_more_visits(
    class_init: str, points_of_label: float, points_of_feature: float, *, item_splits: int = 0
) -> bool:
    """Whether `--epochs auto` asks for more visits, 250 thousand: where rows have much to learn.

    The centroid of a few points is close to what training makes of them. A label with a hundred
    points learns more, but only where features are frequent too: rows of features with few points
    learn those by heart first. Random class rows need more visits, unless split items add some.

    Args:
      class_init: centroid or random.
      points_of_label: the mean over labels of the training points that have it.
      points_of_feature: the same of features.
      item_splits: further splits of each point.

    Example:
      >>> [auto_more_visits("centroid", *of) for of in ((250.2, 463), (175.3, 23), (42.4, 74))]
      [True, False, False]
      >>> auto_more_visits("random", 14.0, 20.0), auto_more_visits("random", 4.3, 9, item_splits=1)
      (True, False)
    """
    frequent = points_of_label >= FREQUENT and points_of_feature >= _FREQUENT_FEATURE
    return not item_splits and (class_init == "random" or frequent)


def auto_may_drop(passes: int, features: float) -> bool:
    """Whether `--input-dropout auto` may leave features out: not in the first passes.

    Dropout pays once a point is seen often enough to be learned by heart. In 2 and 3 passes it cost
    on eight of ten held-out parts (`experiments/results/dropout-by-passes.json`). Long points have
    none in as many passes as `--epochs auto` gives them at least.

    Args:
      passes: of the training.
      features: the mean over points of how many they have.

    Example:
      >>> [auto_may_drop(passes, 20) for passes in (3, 4)], auto_may_drop(4, 320)
      ([False, True], False)
    """
    return passes > max(_PASSES_WITHOUT_DROPOUT, _passes_of_long(features))


def auto_input_dropout(
    points_of_label: float, evidence_lost: float, *, thresholds: tuple[float, float] = _LOST
) -> float:
    """The share for `--input-dropout auto`: 0.5, and less where it would remove what decides.

    A label with few points overfits to features that they share by chance, and dropout prevents
    that. A label with hundreds of points does not: 0.3. Where one of few features decides, such as
    a word that names the label, a visit without it teaches to answer from nothing. So the share
    falls in a straight line, from 0.5 where 0.05 of the evidence is lost to 0 at 0.08.

    Args:
      points_of_label: the mean over labels of the training points that have it.
      evidence_lost: see `snm.data.evidence.evidence_lost`.
      thresholds: the evidence lost up to which dropout is full, and from which there is none.

    Example:
      >>> [auto_input_dropout(points, 0.03) for points in (4.3, 14.0, 250.2)]
      [0.5, 0.5, 0.3]
      >>> [round(auto_input_dropout(14.0, lost), 2) for lost in (0.05, 0.07, 0.17)]
      [0.5, 0.17, 0.0]
    """
    low, high = thresholds
    share = 0.5 * min(1.0, max(0.0, (high - evidence_lost) / (high - low)))
    return min(share, 0.3) if points_of_label >= FREQUENT else share
