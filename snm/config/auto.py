"""The rules behind `auto`: settings as functions of the size of the data.

No rule depends on the name of a data set. They were chosen on held-out parts of training sets; see
`experiments/rules/`.
"""

from __future__ import annotations

import math
from typing import Literal

from snm.config.passes import FREQUENT, MOST_OF_LONG, few_epochs
from snm.memory.sizes import MIN_POINTS

__all__ = [
    "auto_class_init",
    "auto_drops_seen",
    "auto_feature_init",
    "auto_label_text",
    "auto_learn_scale",
    "auto_members",
    "auto_members_at_once",
    "auto_memory",
    "auto_mined",
    "auto_score_scale",
    "auto_size",
    "auto_weighting",
]

_SHORT = 32  # features a point up to which feature rows start at length 1
_MOST_POINTS_OF_THREE = 83_333  # a pass of three members then makes a quarter of a million visits
_TOGETHER = 3 << 30  # bytes of rows that members have together, in answers
_SIDE_BY_SIDE = 1 << 30  # the same, while they train at once
_MINED_LABELS = 1 << 18  # k' K: the fewer labels, the more of them are mined
_FEWEST_FOR_NAMES = 500  # training points below which no label names are tried
_POINTS_TO_SPARE = 40_000  # of which a single member does not miss those that choose a memory
_MOST_STORED = 40_000_000  # values of sparse points; to choose a memory takes 42 bytes for each
_MOST_DENSE = 20_000_000  # the same of dense ones, all multiplied for an answer, in 2 ms
_SURELY_SEEN = 20  # expected pairs of an item with itself, below which none says nothing
_HARDLY_EVER = 0.05  # of these pairs, up to which it is no chance that there are so few
_FEW_REPEATS = 0.01  # of the labels, up to which it costs little never to answer with them
_ONE_LABEL = 1.1  # labels a point up to which it has one
_FREQUENT_ALONE = 20  # training points of a label that has many, where points have one label
_DENSE = 0.3  # share of the values that are not 0


def auto_feature_init(features: float) -> float:
    """The length of a feature row at the start for `--feature-init auto`: 1, less for long points.

    A point's features have length 1 together, so that each of f has a value of about 1 / sqrt(f),
    and a step moves its row, and the row the point, in proportion to that. Queries have unit length
    whatever that of the rows is: shorter rows are turned by the same step more. So the length falls
    with 1 / sqrt(f) from 32 features a point on.

    Args:
      features: the mean over points of how many a visit sees.

    Example:
      >>> [round(auto_feature_init(features), 2) for features in (7.6, 32, 84.2, 200)]
      [1.0, 1.0, 0.62, 0.4]
    """
    return math.sqrt(_SHORT / max(_SHORT, features))


def auto_class_init(item_splits: int) -> Literal["centroid", "random"]:
    """Where class rows start for `--class-init auto`: at centroids, but not of split items.

    The points of an item in a recommender share few features, and their centroid says little.

    Args:
      item_splits: further splits of each point.

    Example:
      >>> auto_class_init(0), auto_class_init(1)
      ('centroid', 'random')
    """
    return "random" if item_splits else "centroid"


def auto_members(num_points: int, rows: int, dim: int) -> int:
    """Models for `--members auto`: 3 up to 83,333 points and 3 GiB of tables, else 1.

    With so few points a pass is short. Three models then take minutes, and predict better than one.

    Args:
      num_points: training points.
      rows: features and labels, each with a row of float32 in every member.
      dim: length of a row.

    Example:
      >>> [auto_members(n, 40_000, 512) for n in (4_880, 83_333, 83_334)]
      [3, 3, 1]
      >>> [auto_members(40_000, rows, 512) for rows in (250_000, 3_050_000)]
      [3, 1]
    """
    small = 3 * 4 * rows * dim <= _TOGETHER
    return 3 if small and num_points <= _MOST_POINTS_OF_THREE else 1


def auto_members_at_once(members: int, rows: int, dim: int) -> int:
    """Members for `--members-at-once auto`: all, or 1 where all their rows take over a gibibyte.

    Args:
      members: models whose scores are added.
      rows: features and labels, each with a row of float32 in every member.
      dim: length of a row.

    Example:
      >>> auto_members_at_once(3, 40_000, 512), auto_members_at_once(3, 700_000, 512)
      (3, 1)
    """
    return members if 4 * members * rows * dim <= _SIDE_BY_SIDE else 1


def auto_memory(
    num_points: int, members: int, passes: int, values: int, *, dense: bool = False
) -> bool:
    """Whether `--memory auto` tries a memory.

    The points that choose it are left out of the first member's training: a tenth of all, at least
    50 and at most 2000. They are hardly missed where other members see them, or where points are
    many; in as few passes as `few_epochs` gives, a memory is worth more than they are. Of sparse
    points, a search reads a bounded number of values (`snm.memory.neighbors.MAX_READ`), and the
    memory of the machine is the limit; of dense points it reads all.

    Args:
      num_points: training points.
      members: models whose scores are added.
      passes: of the training.
      values: of the features of all training points.
      dense: whether the features are dense.

    Example:
      >>> [auto_memory(n, 3, 12, 19 * n) for n in (199, 200, 20_755)]
      [False, True, True]
      >>> [auto_memory(n, 1, 12, 19 * n) for n in (20_755, 162_657)]
      [False, True]
      >>> auto_memory(20_755, 1, 4, 19 * 20_755)
      True
      >>> [auto_memory(490_449, 1, 1, 45 * 490_449, dense=dense) for dense in (False, True)]
      [True, False]
    """
    spared = members > 1 or passes <= max(MOST_OF_LONG, few_epochs(num_points, 0))
    enough = num_points >= (MIN_POINTS if spared else _POINTS_TO_SPARE)
    return enough and values <= (_MOST_DENSE if dense else _MOST_STORED)


def auto_mined(num_labels: int) -> int:
    """The k' of `--mined auto`: 32, or more where there are few labels, up to 256.

    Among many labels the hardest negatives are true negatives, and a few of them suffice. Among a
    thousand labels they are often labels that the point should have but lacks; a larger k' adds
    easier negatives, which outweigh those.

    Example:
      >>> [auto_mined(k) for k in (150, 983, 3_993, 13_330, 670_091)]
      [256, 256, 64, 32, 32]
    """
    power = round(math.log2(_MINED_LABELS / num_labels))
    return 1 << min(8, max(5, power))


def auto_label_text(num_points: int, num_labels: int) -> bool:
    """Whether `--label-text auto` looks if names pay: where a pass takes at most half more time.

    With few points, chance would tell.

    Example:
      >>> auto_label_text(45_744, 6_925), auto_label_text(490_449, 670_091)
      (True, False)
      >>> auto_label_text(499, 20)
      False
    """
    return num_points >= _FEWEST_FOR_NAMES and num_labels <= num_points / 2


def auto_learn_scale(points_of_label: float, labels_of_point: float) -> bool:
    """Whether `--learn-score-scale auto` learns the multiplier: where labels have many points.

    The multiplier grows as long as that lowers the training loss. With a few points a label it
    grows until they are overfitted; with a hundred it does not. Where each point has one label, a
    fifth of that is enough: its probability is to become 1, which takes higher scores than two
    labels that share it.

    Args:
      points_of_label: the mean over labels of the training points that have it.
      labels_of_point: the mean over points that have a label of how many they have.

    Example:
      >>> [auto_learn_scale(points, 5.0) for points in (4.3, 14.0, 42.1, 250.2)]
      [False, False, False, True]
      >>> [auto_learn_scale(points, 1.0) for points in (7.5, 42.1)]
      [False, True]
    """
    many = _FREQUENT_ALONE if labels_of_point <= _ONE_LABEL else FREQUENT
    return points_of_label >= many


def auto_drops_seen(
    together: int, expected: float, labels: int, *, same_items: bool = False
) -> bool:
    """Whether `--seen auto` drops labels that are among a point's own features.

    Features and labels may be the same items, such as places visited and places visited next. If
    hardly a point then has a label among its features, such labels are wrong answers. Embeddings
    place an item next to itself, and would predict it first.

    Args:
      together: entries (point, item) of the training set that are a feature and a label.
      expected: the number by chance, if features and labels were independent.
      labels: entries (point, label) of the training set.
      same_items: whether names tell that features and labels are the same items.

    Example:
      >>> auto_drops_seen(0, 536.1, 24_000), auto_drops_seen(9, 536.1, 24_000)
      (True, True)
      >>> auto_drops_seen(300, 536.1, 24_000), auto_drops_seen(0, 3.0, 24_000)
      (False, False)
      >>> auto_drops_seen(0, 3.0, 24_000, same_items=True)
      True
    """
    few = together <= _FEW_REPEATS * labels
    return few and (
        same_items or (expected >= _SURELY_SEEN and together <= _HARDLY_EVER * expected)
    )


def auto_score_scale(num_labels: int) -> float:
    """The multiplier of scores in [-1, 1] for `--score-scale auto` under a softmax: 1 + ln K.

    Take a point whose positive scores s and all other labels 0. The softmax gives the positive
    e^s / (e^s + K - 1), which is about e / (e + 1) = 0.73 at any K. That is high enough to fit the
    point, and low enough that its hardest negatives still have a gradient.

    Example:
      >>> [round(auto_score_scale(k), 1) for k in (150, 983, 13_964, 40_981, 2_812_281)]
      [6.0, 7.9, 10.5, 11.6, 15.8]
    """
    return 1.0 + math.log(num_labels)


def auto_size(num_labels: int, *, members: int = 1, item_splits: int = 0) -> int:
    """The number of negatives B for `--sampled auto`.

    For several members it is 2048, or K - 1 where that is less: the members draw different samples.
    For one member it is K - 1 up to K = 4097, above that 4096, and 8192 from K = 32769 on. Reddi et
    al. (2019) sample 1024 of 13 thousand labels, and 32768 from 325 thousand labels on. With many
    labels a step's time is nearly that of scoring B of them, and 32768 took twice the time of 8192
    for half a point of PSP@5 (`experiments/results/sampled-large.json`). Where items are split, it
    stays at 4096: 8192 gained nothing there.

    Args:
      num_labels: K, at least 2.
      members: models whose scores are added.
      item_splits: further splits of each point.

    Returns:
      B, from 1 to K - 1.

    Raises:
      ValueError: K is below 2: there is no other label.

    Example:
      >>> [auto_size(k) for k in (2, 3_993, 13_330, 205_443, 670_091)]
      [1, 3992, 4096, 8192, 8192]
      >>> [auto_size(k, members=3) for k in (983, 40_981)]
      [982, 2048]
      >>> auto_size(220_284, item_splits=1)
      4096
    """
    if num_labels < 2:
        raise ValueError(f"sampling needs at least 2 labels, found {num_labels}")
    if members > 1:
        return min(num_labels - 1, 2048)
    few = num_labels <= 32_768 or item_splits
    return min(num_labels - 1, 4096 if few else 8192)


def auto_weighting(filled: float, *, negative: bool) -> Literal["tfidf", "l2", "standard"]:
    """The weighting for `--weighting auto`.

    Dense features have a mean that all points share. Where it is far from 0, it makes up most of a
    point's length, embeddings are nearly equal, and training ends at the frequencies of the labels.
    `standard` subtracts it. Of sparse features the means are small, and to subtract them would make
    the points dense. From a fifth of values that are not 0, that gained; here, rows become at most
    three times as long.

    Args:
      filled: the share of the values that are not 0.
      negative: whether a value is below 0, which `tfidf` refuses.

    Example:
      >>> auto_weighting(0.9, negative=False), auto_weighting(0.01, negative=True)
      ('standard', 'l2')
      >>> auto_weighting(0.01, negative=False)
      'tfidf'
    """
    if filled > _DENSE:
        return "standard"
    return "l2" if negative else "tfidf"
