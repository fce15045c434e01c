"""The rules behind `--epochs auto` and `few`.

They were chosen as those of `snm.config.auto`.
"""

from __future__ import annotations

__all__ = [
    "FEW_POINTS",
    "FREQUENT",
    "MAX_EPOCHS_FOR_LENGTH",
    "auto_epochs",
    "auto_max_epochs",
    "auto_more_visits",
    "epochs_for_length",
    "few_epochs",
]

FEW_POINTS = 2500
"""Visits of an epoch below which `--epochs few` makes several passes, and training points below
which `--members few` is 2."""
FREQUENT = 100
"""Training points of a frequent label."""
MAX_EPOCHS_FOR_LENGTH = 4
"""The most epochs that points get because they have many features."""
_VISITS = 100_000  # visits of points in a training by `--epochs auto`
_MORE_VISITS = 250_000  # the same if `auto_more_visits`
_MAX_EPOCHS = 30
_MAX_EPOCHS_OF_RARE = 10  # the same if class rows start at centroids and labels are rare
_MIN_VISITS = 10_000  # on few points, within 30 epochs: of `few`, and of the maximum of `auto`
_RARE = 30  # training points below which a label is rare
_TWO_EPOCHS = 50_000  # points from which 2 epochs are enough, else 3
_ONE_EPOCH = 250_000  # visits of an epoch from which one is enough
_FREQUENT_FEATURE = 200  # training points of a frequent feature
_FEATURES_PER_EPOCH = 20  # long points get one epoch per 20 features, see `MAX_EPOCHS_FOR_LENGTH`


def auto_epochs(
    num_points: int,
    features: float,
    *,
    item_splits: int = 0,
    more: bool = False,
    most: int = _MAX_EPOCHS,
) -> int:
    """The number of `--epochs auto`: 100 thousand visits, at most 30 or 10 epochs.

    Class rows start near their final values, and more visits gain little or overfit them. At the
    same number of steps, small sets gain more from further epochs than large ones. So there are at
    least 3 epochs, 2 from 50 thousand points on, and a single one if it makes 250 thousand visits:
    further epochs would take most of the training time and change little. Long points need more: an
    epoch moves a feature row in proportion to the feature's value, which is lower in points of many
    features. So they get at least one epoch per 20 features, up to 4.

    Args:
      num_points: training points.
      features: the mean over points of how many they have.
      item_splits: further splits of each point, visited too. With them, class rows start at random,
        and there are at least 3 epochs, unless one makes 250 thousand visits.
      more: whether to aim at 250 thousand visits, in at least 3 epochs, unless one makes as many;
        see `auto_more_visits`.
      most: the maximum of epochs; see `auto_max_epochs`.

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
    epoch_visits = _epoch_visits(num_points, item_splits)
    if epoch_visits >= _ONE_EPOCH:
        min_epochs = 1
    else:
        min_epochs = 3 if more or item_splits or num_points < _TWO_EPOCHS else 2
    visits = _MORE_VISITS if more else _VISITS
    epochs = max(min_epochs, round(visits / epoch_visits), epochs_for_length(features))
    return min(most, epochs)


def few_epochs(num_points: int, features: float, *, item_splits: int = 0) -> int:
    """The number of `--epochs few`: 1, or more for few points or long ones.

    With class rows that start at centroids, and a memory, further epochs gain less than half a
    percent. Exceptions are long points, which get at least as many epochs as by `auto_epochs`, and
    fewer than 2500 visits per epoch: a few epochs would be a handful of steps, so there are about
    10 thousand visits, in 4 to 30 epochs (`experiments/results/few-points-fast.json`).

    Args:
      num_points: training points.
      features: the mean over points of how many they have.
      item_splits: further splits of each point, visited too.

    Example:
      >>> [few_epochs(n, 20) for n in (60, 200, 450, 1_123, 4_500, 162_657)]
      [30, 30, 22, 9, 1, 1]
      >>> [few_epochs(15_511, features) for features in (20, 29, 45, 70, 673)]
      [1, 1, 2, 4, 4]
    """
    visits = _epoch_visits(num_points, item_splits)
    epochs = round(_MIN_VISITS / visits) if visits < FEW_POINTS else 1
    return min(_MAX_EPOCHS, max(epochs, epochs_for_length(features)))


def _epoch_visits(num_points: int, item_splits: int) -> int:
    return (1 + item_splits) * max(1, num_points)


def epochs_for_length(features: float) -> int:
    """The fewest epochs for points of so many features on average: one per 20, up to 4."""
    return min(MAX_EPOCHS_FOR_LENGTH, round(features / _FEATURES_PER_EPOCH))


def auto_max_epochs(class_init: str, points_of_label: float, num_points: int) -> int:
    """The maximum of epochs for `--epochs auto`: 30, or 10 if rare labels would be overfitted.

    100 thousand visits would be many epochs over few points. If labels have fewer than 30 points,
    rows that start at centroids gain nothing clear after 10 epochs, which take a third of the time
    (`experiments/results/small-sets-passes.json`). But 10 epochs over a few hundred points are only
    a few steps: there the maximum is 10 thousand visits
    (`experiments/results/few-points-passes.json`).

    Args:
      class_init: centroid or random.
      points_of_label: the mean over labels of the training points that have it.
      num_points: training points.

    Example:
      >>> [auto_max_epochs("centroid", points, 4_500) for points in (4.3, 42.4)]
      [10, 30]
      >>> [auto_max_epochs("centroid", 4.3, num_points) for num_points in (250, 408, 900)]
      [30, 25, 11]
      >>> auto_max_epochs("random", 4.3, 4_500)
      30
    """
    if class_init != "centroid" or points_of_label >= _RARE:
        return _MAX_EPOCHS
    few_points_epochs = round(_MIN_VISITS / max(1, num_points))
    return min(_MAX_EPOCHS, max(_MAX_EPOCHS_OF_RARE, few_points_epochs))


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
