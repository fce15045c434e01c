"""The rules behind `--epochs auto` and `few`, and behind `--input-dropout auto`.

They were chosen as those of `snm.config.auto`.
"""

from __future__ import annotations

__all__ = [
    "FREQUENT",
    "MAX_PASSES_FOR_LENGTH",
    "auto_epochs",
    "auto_input_dropout",
    "auto_max_passes",
    "auto_may_use_dropout",
    "auto_more_visits",
    "few_epochs",
]

FREQUENT = 100
"""Training points of a frequent label."""
MAX_PASSES_FOR_LENGTH = 4
"""The most passes that points get because they have many features."""
_VISITS = 100_000  # visits of points in a training by `--epochs auto`
_MORE_VISITS = 250_000  # the same if `auto_more_visits`
_MAX_PASSES = 30
_MAX_PASSES_OF_RARE = 10  # the same if class rows start at centroids and labels are rare
_MIN_VISITS = 10_000  # that the maximum of passes allows in any case, within 30 passes
_RARE = 30  # training points below which a label is rare
_TWO_PASSES = 50_000  # points from which 2 passes are enough, else 3
_ONE_PASS = 250_000  # visits of a pass from which one is enough
_FREQUENT_FEATURE = 200  # training points of a frequent feature
_FEW_VISITS = 4000  # visits of points in a training by `--epochs few`
_FEATURES_PER_PASS = 20  # long points get one pass per 20 features, see `MAX_PASSES_FOR_LENGTH`
_PASSES_WITHOUT_DROPOUT = 3
_DROPOUT_THRESHOLDS = (0.05, 0.08)  # evidence lost: full dropout below, none above


def auto_epochs(
    num_points: int,
    features: float,
    *,
    item_splits: int = 0,
    more: bool = False,
    most: int = _MAX_PASSES,
) -> int:
    """Passes over the points for `--epochs auto`: 100 thousand visits, at most 30 or 10 passes.

    Class rows start near their final values, and more visits gain little or overfit them. At the
    same number of steps, small sets gain more from further passes than large ones. So there are at
    least 3 passes, 2 from 50 thousand points on, and a single one if it makes 250 thousand visits:
    further passes would take most of the training time and change little. Long points need more: a
    pass moves a feature row in proportion to the feature's value, which is lower in points of many
    features. So they get at least one pass per 20 features, up to 4.

    Args:
      num_points: training points.
      features: the mean over points of how many they have.
      item_splits: further splits of each point, visited too. With them, class rows start at random,
        and there are at least 3 passes, unless one makes 250 thousand visits.
      more: whether to aim at 250 thousand visits, in at least 3 passes, unless one makes as many;
        see `auto_more_visits`.
      most: the maximum of passes; see `auto_max_passes`.

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
    pass_visits = _pass_visits(num_points, item_splits)
    if pass_visits >= _ONE_PASS:
        min_passes = 1
    else:
        min_passes = 3 if more or item_splits or num_points < _TWO_PASSES else 2
    visits = _MORE_VISITS if more else _VISITS
    passes = max(min_passes, round(visits / pass_visits), _passes_for_length(features))
    return min(most, passes)


def few_epochs(num_points: int, features: float, *, item_splits: int = 0) -> int:
    """Passes over the points for `--epochs few`: 1, or more for few points or long ones.

    With class rows that start at centroids, and a memory, further passes gain less than half a
    percent. Exceptions are fewer than 2667 visits per pass (4000 visits, rounded to whole passes)
    and long points, which get at least as many passes as by `auto_epochs`. Few points get up to 30
    passes: 4 passes over 200 points are only a handful of steps.

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
    few_points_passes = round(_FEW_VISITS / _pass_visits(num_points, item_splits))
    return min(_MAX_PASSES, max(1, few_points_passes, _passes_for_length(features)))


def _pass_visits(num_points: int, item_splits: int) -> int:
    return (1 + item_splits) * max(1, num_points)


def _passes_for_length(features: float) -> int:
    return min(MAX_PASSES_FOR_LENGTH, round(features / _FEATURES_PER_PASS))


def auto_max_passes(class_init: str, points_of_label: float, num_points: int) -> int:
    """The maximum of passes for `--epochs auto`: 30, or 10 if rare labels would be overfitted.

    100 thousand visits would be many passes over few points. If labels have fewer than 30 points,
    rows that start at centroids gain nothing clear after 10 passes, which take a third of the time
    (`experiments/results/small-sets-passes.json`). But 10 passes over a few hundred points are only
    a few steps: there the maximum is 10 thousand visits
    (`experiments/results/few-points-passes.json`).

    Args:
      class_init: centroid or random.
      points_of_label: the mean over labels of the training points that have it.
      num_points: training points.

    Example:
      >>> [auto_max_passes("centroid", points, 4_500) for points in (4.3, 42.4)]
      [10, 30]
      >>> [auto_max_passes("centroid", 4.3, num_points) for num_points in (250, 408, 900)]
      [30, 25, 11]
      >>> auto_max_passes("random", 4.3, 4_500)
      30
    """
    if class_init != "centroid" or points_of_label >= _RARE:
        return _MAX_PASSES
    few_points_passes = round(_MIN_VISITS / max(1, num_points))
    return min(_MAX_PASSES, max(_MAX_PASSES_OF_RARE, few_points_passes))


def auto_more_visits(
    class_init: str, points_of_label: float, points_of_feature: float, *, item_splits: int = 0
) -> bool:
    """Whether `--epochs auto` uses more visits, 250 thousand, because rows have much to learn.

    The centroid of a few points is close to the trained row. A label with a hundred points gains
    more, but only if features are frequent too: rows of rare features overfit first. Random class
    rows need more visits, unless item splits add some.

    Args:
      class_init: centroid or random.
      points_of_label: the mean over labels of the training points that have it.
      points_of_feature: the mean over features of the training points that have it.
      item_splits: further splits of each point.

    Example:
      >>> averages = (250.2, 463), (175.3, 23), (42.4, 74)
      >>> [auto_more_visits("centroid", *counts) for counts in averages]
      [True, False, False]
      >>> auto_more_visits("random", 14.0, 20.0), auto_more_visits("random", 4.3, 9, item_splits=1)
      (True, False)
    """
    frequent = points_of_label >= FREQUENT and points_of_feature >= _FREQUENT_FEATURE
    return not item_splits and (class_init == "random" or frequent)


def auto_may_use_dropout(passes: int, features: float) -> bool:
    """Whether `--input-dropout auto` may be above 0: not in a training of few passes.

    Dropout pays once a point is seen often enough to be overfitted. In 2 and 3 passes it cost
    on eight of ten held-out parts (`experiments/results/dropout-by-passes.json`). Long
    points have none within the passes that `--epochs auto` gives them for their length.

    Args:
      passes: of the training.
      features: the mean over points of how many they have.

    Example:
      >>> [auto_may_use_dropout(passes, 20) for passes in (3, 4)], auto_may_use_dropout(4, 320)
      ([False, True], False)
    """
    return passes > max(_PASSES_WITHOUT_DROPOUT, _passes_for_length(features))


def auto_input_dropout(
    points_of_label: float,
    evidence_lost: float,
    *,
    thresholds: tuple[float, float] = _DROPOUT_THRESHOLDS,
) -> float:
    """The share for `--input-dropout auto`: 0.5, or less if it would remove decisive features.

    A label with few points overfits to features that they share by chance, and dropout prevents
    that. A label with hundreds of points does not: 0.3. If one of few features decides, such as a
    word that names the label, a visit without it has no evidence to learn from. So the share falls
    linearly, from 0.5 where 0.05 of the evidence is lost to 0 at 0.08.

    Args:
      points_of_label: the mean over labels of the training points that have it.
      evidence_lost: see `snm.config.evidence.evidence_lost`.
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
