"""The rules behind `auto`: settings as functions of the data.

No rule depends on the name of a data set. They were chosen on held-out parts of training sets; see
`experiments/rules/`.
"""

from __future__ import annotations

import math
from typing import Literal

from scipy.sparse import csr_matrix

from snm.config.auto_epochs import (
    FEW_POINTS,
    FREQUENT,
    MAX_EPOCHS_FOR_LENGTH,
    epochs_for_length,
    few_epochs,
)
from snm.data.statistics import dominant_feature
from snm.data.weighting import filled

__all__ = [
    "MIN_MEMORY_POINTS",
    "auto_class_init",
    "auto_drops_seen",
    "auto_feature_init",
    "auto_input_dropout",
    "auto_label_text",
    "auto_learn_scale",
    "auto_may_use_dropout",
    "auto_members",
    "auto_members_at_once",
    "auto_memory",
    "auto_mined",
    "auto_sampled",
    "auto_score_scale",
    "auto_weighting",
    "few_members",
]

MIN_MEMORY_POINTS = 200
"""Training points below which no memory is tried."""

_SHORT_POINT = 32  # features per point up to which feature rows start at length 1
_MAX_POINTS_OF_THREE = 83_333  # 3 members: an epoch of all three is then 250,000 visits
_MAX_MEMBER_BYTES = 3 << 30  # of the tables of all members, in prediction
_MAX_PARALLEL_BYTES = 1 << 30  # of the tables of members that train at once
_MINED_TIMES_LABELS = 1 << 18  # k' K: the fewer labels, the more of them are mined
_MIN_POINTS_FOR_NAMES = 500  # training points below which no label names are tried
_MIN_POINTS_OF_ONE = 40_000  # a single member can then spare the points that choose a memory
_MAX_SPARSE_VALUES = 40_000_000  # of stored points; choosing a memory takes 42 bytes per value
_MAX_DENSE_VALUES = 20_000_000  # of stored points; a prediction multiplies all of them, in 2 ms
_MIN_EXPECTED_PAIRS = 20  # expected (item, same item) pairs from which their absence is evidence
_MAX_PAIR_RATIO = 0.05  # of found to expected pairs, up to which the difference is no chance
_MAX_REPEATED_LABELS = 0.01  # share of the labels that dropping seen labels may make unpredictable
_ONE_LABEL = 1.1  # labels per point up to which points count as having one label
_FREQUENT_SINGLE = 20  # training points of a frequent label, where points have one label
_DENSE = 0.2  # share of nonzero values from which features count as dense
_MIXED = 0.1  # the same, if one feature has far larger values than the others
_EPOCHS_WITHOUT_DROPOUT = 3
_EVIDENCE_LOST = (0.05, 0.08)  # full dropout below, none above
_NEIGHBORS_LOST = (0.15, 0.2)  # full dropout below, none above


def auto_feature_init(features: float) -> float:
    """The length of a feature row at the start for `--feature-init auto`: 1, less for long points.

    A point's feature vector has length 1, so each of its f features has a value of about
    1 / sqrt(f). A step moves a feature row, and the row moves the query, in proportion to that
    value. Queries are normalized, so the same step turns shorter rows more. So the length falls
    with 1 / sqrt(f) from 32 features per point on.

    Args:
      features: the mean number of features per point after dropout.

    Example:
      >>> [round(auto_feature_init(features), 2) for features in (7.6, 32, 84.2, 200)]
      [1.0, 1.0, 0.62, 0.4]
    """
    return math.sqrt(_SHORT_POINT / max(_SHORT_POINT, features))


def auto_may_use_dropout(epochs: int, features: float) -> bool:
    """Whether `--input-dropout auto` may be above 0: not in a training of few epochs.

    Dropout pays once a point is seen often enough to be overfitted. In 2 and 3 epochs it cost
    on eight of ten held-out parts (`experiments/results/dropout-by-passes.json`). Long
    points have none within the epochs that `--epochs auto` gives them for their length.

    Args:
      epochs: of the training.
      features: the mean over points of how many they have.

    Example:
      >>> [auto_may_use_dropout(epochs, 20) for epochs in (3, 4)], auto_may_use_dropout(4, 320)
      ([False, True], False)
    """
    return epochs > max(_EPOCHS_WITHOUT_DROPOUT, epochs_for_length(features))


def auto_input_dropout(
    points_of_label: float, evidence_lost: float, neighbors_lost: float
) -> float:
    """The share for `--input-dropout auto`: 0.5, or less if the rest no longer tells the labels.

    A label with few points overfits to features that they share by chance, and dropout prevents
    that. A label with hundreds of points does not: 0.3. If one of few features decides, such as a
    word that names the label, a visit without it has no evidence to learn from. So the share falls
    linearly, from 0.5 where 0.05 of the evidence is lost to 0 at 0.08. If only many features
    together decide, it falls from 0.5 where the P@1 of neighbours falls by 0.15 to 0 at 0.2.

    Args:
      points_of_label: the mean over labels of the training points that have it.
      evidence_lost: see `snm.config.evidence.evidence_lost`.
      neighbors_lost: see `snm.config.evidence.neighbors_lost`.

    Example:
      >>> [auto_input_dropout(points, 0.03, 0.07) for points in (4.3, 14.0, 250.2)]
      [0.5, 0.5, 0.3]
      >>> [round(auto_input_dropout(14.0, lost, 0.07), 2) for lost in (0.05, 0.07, 0.17)]
      [0.5, 0.17, 0.0]
      >>> [round(auto_input_dropout(14.0, 0.03, lost), 2) for lost in (0.15, 0.18, 0.39)]
      [0.5, 0.2, 0.0]
    """
    pairs = ((evidence_lost, _EVIDENCE_LOST), (neighbors_lost, _NEIGHBORS_LOST))
    left = min((high - lost) / (high - low) for lost, (low, high) in pairs)
    share = 0.5 * min(1.0, max(0.0, left))
    return min(share, 0.3) if points_of_label >= FREQUENT else share


def auto_class_init(item_splits: int) -> Literal["centroid", "random"]:
    """The value for `--class-init auto`: centroid, but random with item splits.

    The points of an item in a recommender share few features, so their centroid is uninformative.

    Args:
      item_splits: further splits of each point.

    Example:
      >>> auto_class_init(0), auto_class_init(1)
      ('centroid', 'random')
    """
    return "random" if item_splits else "centroid"


def auto_members(num_points: int, rows: int, dim: int) -> int:
    """The value for `--members auto`: 3 up to 83,333 points and 3 GiB of tables, else 1.

    With so few points an epoch is short. Three models then take minutes, and predict better.

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
    small = 3 * 4 * rows * dim <= _MAX_MEMBER_BYTES
    return 3 if small and num_points <= _MAX_POINTS_OF_THREE else 1


def few_members(num_points: int) -> int:
    """The value for `--members few`: 1, or 2 below 2500 training points.

    A tenth of the points, but at least 50, are held out from the first member to choose a memory.
    Of a few hundred points that is much, so a second member trains on all.

    Args:
      num_points: training points.

    Example:
      >>> [few_members(n) for n in (200, 2_499, 2_500)]
      [2, 2, 1]
    """
    return 2 if num_points < FEW_POINTS else 1


def auto_members_at_once(members: int, rows: int, dim: int) -> int:
    """The value for `--members-at-once auto`: all, or 1 if their tables take more than 1 GiB.

    Args:
      members: models whose scores are added.
      rows: features and labels, each with a row of float32 in every member.
      dim: length of a row.

    Example:
      >>> auto_members_at_once(3, 40_000, 512), auto_members_at_once(3, 700_000, 512)
      (3, 1)
    """
    return members if 4 * members * rows * dim <= _MAX_PARALLEL_BYTES else 1


def auto_memory(
    num_points: int, members: int, epochs: int, values: int, *, dense: bool = False
) -> bool:
    """Whether `--memory auto` tries a memory.

    The points that choose it are left out of the first member's training: a tenth of all, at least
    50 and at most 2000. That costs little if other members see them or if there are many points;
    with as few epochs as `few_epochs` gives, a memory gains more than it costs. A search of sparse
    points reads a bounded number of values (`snm.memory.neighbors.MAX_READ`), so the limit is the
    memory of the machine; a search of dense points reads all values.

    Args:
      num_points: training points.
      members: models whose scores are added.
      epochs: of the training.
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
    can_spare = members > 1 or epochs <= max(MAX_EPOCHS_FOR_LENGTH, few_epochs(num_points, 0))
    enough = num_points >= (MIN_MEMORY_POINTS if can_spare else _MIN_POINTS_OF_ONE)
    return enough and values <= (_MAX_DENSE_VALUES if dense else _MAX_SPARSE_VALUES)


def auto_mined(num_labels: int) -> int:
    """K' for `--mined auto`: 32, or more if there are few labels, up to 256.

    Among many labels the hardest negatives are true negatives, and a few of them suffice. Among a
    thousand labels they are often labels that the point should have but lacks; a larger k' adds
    easier negatives, which outweigh those.

    Example:
      >>> [auto_mined(k) for k in (150, 983, 3_993, 13_330, 670_091)]
      [256, 256, 64, 32, 32]
    """
    power = round(math.log2(_MINED_TIMES_LABELS / num_labels))
    return 1 << min(8, max(5, power))


def auto_label_text(num_points: int, num_labels: int) -> bool:
    """Whether `--label-text auto` tries label names: if they add at most half to an epoch's time.

    With few points, the trial would be decided by chance.

    Example:
      >>> auto_label_text(45_744, 6_925), auto_label_text(490_449, 670_091)
      (True, False)
      >>> auto_label_text(499, 20)
      False
    """
    return num_points >= _MIN_POINTS_FOR_NAMES and num_labels <= num_points / 2


def auto_learn_scale(points_of_label: float, labels_of_point: float) -> bool:
    """Whether `--learn-score-scale auto` learns the multiplier: if labels have many points.

    The multiplier grows as long as that lowers the training loss. With a few points per label it
    grows until they are overfitted; with a hundred it does not. If each point has one label, twenty
    are enough: the probability of the label should become 1, which takes higher scores than a
    probability shared by several labels.

    Args:
      points_of_label: the mean over labels of the training points that have it.
      labels_of_point: the mean over points that have a label of how many they have.

    Example:
      >>> [auto_learn_scale(points, 5.0) for points in (4.3, 14.0, 42.1, 250.2)]
      [False, False, False, True]
      >>> [auto_learn_scale(points, 1.0) for points in (7.5, 42.1)]
      [False, True]
    """
    frequent = _FREQUENT_SINGLE if labels_of_point <= _ONE_LABEL else FREQUENT
    return points_of_label >= frequent


def auto_drops_seen(pairs: int, expected: float, labels: int, *, same_items: bool = False) -> bool:
    """Whether `--seen auto` drops labels that are among a point's own features.

    Features and labels may be the same items, such as places visited and places visited next. If
    hardly any point has a label among its features, such labels are wrong answers. But embeddings
    place an item next to itself, so it would be predicted first.

    Args:
      pairs: entries (point, item) of the training set that are both a feature and a label.
      expected: the number by chance, if features and labels were independent.
      labels: entries (point, label) of the training set.
      same_items: whether the names show that features and labels are the same items.

    Example:
      >>> auto_drops_seen(0, 536.1, 24_000), auto_drops_seen(9, 536.1, 24_000)
      (True, True)
      >>> auto_drops_seen(300, 536.1, 24_000), auto_drops_seen(0, 3.0, 24_000)
      (False, False)
      >>> auto_drops_seen(0, 3.0, 24_000, same_items=True)
      True
    """
    few = pairs <= _MAX_REPEATED_LABELS * labels
    return few and (
        same_items or (expected >= _MIN_EXPECTED_PAIRS and pairs <= _MAX_PAIR_RATIO * expected)
    )


def auto_score_scale(num_labels: int) -> float:
    """The multiplier of scores in [-1, 1] for `--score-scale auto` under a softmax: 1 + ln K.

    Take a point whose positive has the score s and all other labels 0. The softmax probability of
    the positive is e^s / (e^s + K - 1), about e / (e + 1) = 0.73 at any K. That is high enough to
    fit the point, and low enough that its hardest negatives still have a gradient.

    Example:
      >>> [round(auto_score_scale(k), 1) for k in (150, 983, 13_964, 40_981, 2_812_281)]
      [6.0, 7.9, 10.5, 11.6, 15.8]
    """
    return 1.0 + math.log(num_labels)


def auto_sampled(num_labels: int, *, members: int = 1, item_splits: int = 0) -> int:
    """The number of negatives B for `--sampled auto`.

    For several members it is 2048, or K - 1 if that is less: the members draw different samples.
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
      >>> [auto_sampled(k) for k in (2, 3_993, 13_330, 205_443, 670_091)]
      [1, 3992, 4096, 8192, 8192]
      >>> [auto_sampled(k, members=3) for k in (983, 40_981)]
      [982, 2048]
      >>> auto_sampled(220_284, item_splits=1)
      4096
    """
    if num_labels < 2:
        raise ValueError(f"sampling needs at least 2 labels, found {num_labels}")
    if members > 1:
        return min(num_labels - 1, 2048)
    few = num_labels <= 32_768 or item_splits
    return min(num_labels - 1, 4096 if few else 8192)


def auto_weighting(
    features: csr_matrix, *, negative: bool, may_center: bool = True
) -> Literal["tfidf", "l2", "standard"]:
    """The weighting for `--weighting auto`.

    All points share the mean of dense features. If it is far from 0, it makes up most of a point's
    length, embeddings are nearly equal, and the model learns only the frequencies of the labels. So
    does a number in another unit, such as a price among features of 0 and 1. `standard` subtracts
    the means and divides by the deviations. Sparse features have small means, and subtracting them
    would make the points dense: at most five times as long here, or ten times with such a number.

    Args:
      features: CSR [n, d], of the training points.
      negative: whether a value is below 0, which `tfidf` rejects.
      may_center: whether `standard` is possible.

    Example:
      >>> words = csr_matrix(([1.0, 1.0], ([0, 1], [0, 8])), shape=(2, 9))
      >>> auto_weighting(words, negative=False), auto_weighting(words, negative=True)
      ('tfidf', 'l2')
      >>> with_prices = csr_matrix(([1.0, 90.0, 1.0, 70.0], ([0, 0, 1, 1], [0, 8, 1, 8])), (2, 9))
      >>> auto_weighting(with_prices, negative=False)
      'standard'
      >>> auto_weighting(csr_matrix([[1, 2], [2, 1]]), negative=False)
      'standard'
    """
    share = filled(features) if may_center else 0.0
    if share > _DENSE or (share > _MIXED and dominant_feature(features) is not None):
        return "standard"
    return "l2" if negative else "tfidf"
