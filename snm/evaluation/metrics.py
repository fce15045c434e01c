"""Accumulates top-k metrics over batches of predictions and true labels.

The state consists of integer counts of hits, grouped by rank and by what determines the value of a
hit: the number of labels of the point, or the propensity of the label. `Metrics.result` computes
the metrics from the counts at the end, so the result does not depend on the batch size, to the last
bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snm.data.csr import are_entries
from snm.data.repository.registry import PROPENSITY
from snm.evaluation.filters import CSR, canonical, nonzero_pairs

__all__ = ["KS", "Metrics", "frequency_groups", "metric_names", "propensities"]

NDArray = np.ndarray[Any, Any]

KS = (1, 3, 5)
"""The values of k that metrics are computed at; those above the number of labels are omitted."""

_NUM_GROUPS = 10  # of labels by frequency
_MEASURES = ("P", "R", "F1", "nDCG", "PSP", "PSnDCG", "coverage")


def metric_names(num_labels: int, *, auc: bool = False) -> list[str]:
    """The names of the metrics for K labels: `measure@k` for each k <= K, and `AUC` if `auc`."""
    names = [f"{measure}@{k}" for k in KS if k <= num_labels for measure in _MEASURES]
    return [*names, "AUC"] if auc else names


def propensities(
    label_frequency: NDArray,
    num_points: int,
    a: float = PROPENSITY[0],
    b: float = PROPENSITY[1],
) -> NDArray:
    """The propensity of each label: the probability that a relevant label is recorded.

        p_l = 1 / (1 + C (N_l + b)^(-a)),  C = (log N - 1) (b + 1)^a

    The Extreme Classification Repository uses a = 0.5, b = 0.4 for its Wikipedia data sets,
    a = 0.6, b = 2.6 for Amazon, and a = 0.55, b = 1.5 for the others. For N < e the formula does
    not give probabilities; C is then 0, and every p_l is 1.

    Args:
      label_frequency: int [K], N_l, the training points that carry each label, before any split.
      num_points: N, the number of points of the training set, at least 1.
      a: exponent, at least 0.
      b: offset, above 0.

    Returns:
      float64 [K], in (0, 1].

    Raises:
      ValueError: an argument is out of range.

    References:
      Jain, Prabhu and Varma, Extreme Multi-label Loss Functions (2016), equation 2.
    """
    frequency = np.asarray(label_frequency, np.float64)
    if num_points < 1 or a < 0 or b <= 0 or (frequency.size and frequency.min() < 0):
        raise ValueError(
            "propensities need num_points >= 1, a >= 0, b > 0 and no negative frequency; "
            f"found num_points {num_points}, a {a}, b {b}"
        )
    scale = max(np.log(num_points) - 1.0, 0.0) * (b + 1.0) ** a
    return 1.0 / (1.0 + scale * (frequency + b) ** -a)


def frequency_groups(label_frequency: NDArray) -> NDArray:
    """Splits the labels into ten groups of equal size by frequency.

    Labels are sorted by ascending frequency, ties by id. The label at index i of K belongs to group
    floor(10 i / K), so group 0 holds the rarest labels and group 9 the most frequent ones. Group
    sizes differ by at most 1.

    Args:
      label_frequency: int [K], the training points that carry each label.

    Returns:
      int32 [K], the group of each label.

    Example:
      >>> frequency_groups(np.array([5, 1, 3, 2]))
      array([7, 0, 5, 2], dtype=int32)
    """
    order = np.argsort(label_frequency, kind="stable")
    groups = np.empty(len(order), np.int32)
    groups[order] = np.arange(len(order), dtype=np.int64) * _NUM_GROUPS // max(len(order), 1)
    return groups


@dataclass(frozen=True, eq=False)
class Metrics:
    """Counts over the points so far. Create them with `start`; `update` returns new counts.

    M is the largest number of labels of a point so far, R the largest k, U the number of distinct
    propensities, G the number of groups. A hit is a correct prediction.

    Attributes:
      ks: the reported values of k, ascending.
      points_by_size: int64 [M+1], the points with m labels.
      hits_by_size: int64 [R, M+1], hits at each rank, of points with m labels.
      class_weight: float64 [U], the distinct values of 1 / propensity, ascending.
      label_class: int [K], the index of each label's weight in `class_weight`, or None.
      class_hits: int64 [R, U], hits at each rank, of labels with each weight.
      class_ideal: int64 [R, U], the same for the best possible predictions.
      label_group: int [K], the group of each label, or None.
      group_hits: int64 [R, G], hits at each rank, of labels of each group.
      group_occurrences: int64 [G], the (point, label) pairs of each group.
      best_rank: int32 [K], the best rank at which each label was a hit; R if never.
      occurs: bool [K], labels that at least one point carries.
    """

    ks: tuple[int, ...]
    points_by_size: NDArray
    hits_by_size: NDArray
    class_weight: NDArray
    label_class: NDArray | None
    class_hits: NDArray
    class_ideal: NDArray
    label_group: NDArray | None
    group_hits: NDArray
    group_occurrences: NDArray
    best_rank: NDArray
    occurs: NDArray

    @staticmethod
    def start(
        num_labels: int,
        *,
        ks: Sequence[int] = KS,
        propensity: NDArray | None = None,
        groups: NDArray | None = None,
    ) -> Metrics:
        """Empty counts.

        Args:
          num_labels: K.
          ks: the values of k to report, each at least 1.
          propensity: float [K], in (0, 1], from `propensities`. If None, there is no PSP or PSnDCG.
          groups: int [K], from `frequency_groups`. If None, `by_group` is empty.

        Raises:
          ValueError: `ks` is empty or contains a value below 1, a shape is not [K], or a propensity
            is out of range.
        """
        ks = tuple(sorted({int(k) for k in ks}))
        if not ks or ks[0] < 1:
            raise ValueError(f"ks must be values of at least 1, found {ks}")
        for name, array in (("propensity", propensity), ("groups", groups)):
            if array is not None and np.shape(array) != (num_labels,):
                raise ValueError(f"{name} must be [{num_labels}], found {np.shape(array)}")
        ranks = ks[-1]
        class_weight, label_class = np.zeros(0), None
        if propensity is not None:
            propensity = np.asarray(propensity, np.float64)
            if not ((propensity > 0) & (propensity <= 1)).all():
                raise ValueError("propensities must be above 0 and at most 1, not their inverses")
            class_weight, label_class = np.unique(1.0 / propensity, return_inverse=True)
            label_class = label_class.astype(np.int32)
        num_groups = 0 if groups is None else int(np.max(groups, initial=-1)) + 1
        return Metrics(
            ks=ks,
            points_by_size=np.zeros(1, np.int64),
            hits_by_size=np.zeros((ranks, 1), np.int64),
            class_weight=class_weight,
            label_class=label_class,
            class_hits=np.zeros((ranks, len(class_weight)), np.int64),
            class_ideal=np.zeros((ranks, len(class_weight)), np.int64),
            label_group=None if groups is None else np.asarray(groups),
            group_hits=np.zeros((ranks, num_groups), np.int64),
            group_occurrences=np.zeros(num_groups, np.int64),
            best_rank=np.full(num_labels, ranks, np.int32),
            occurs=np.zeros(num_labels, bool),
        )

    def update(
        self, topk_ids: NDArray, labels: CSR, *, leave_out: NDArray | None = None
    ) -> Metrics:
        """Adds a batch of points.

        Args:
          topk_ids: int [n, >= max(ks)], the predicted labels of each point, best first. -1 means no
            prediction and counts as a miss; the other ids of a row must be distinct.
          labels: CSR [n, K], the true labels of each point: non-zero entries.
          leave_out: bool [n] or None, points to ignore, such as duplicates of training points.

        Returns:
          Counts that include the batch; `self` is unchanged.

        Raises:
          ValueError: a shape or a type does not fit, or an id is out of range or occurs twice in a
            row.
        """
        ids, labels = self._checked(np.asarray(topk_ids), labels, leave_out)
        ranks = self.ks[-1]
        sizes = np.diff(labels.indptr).astype(np.int64)
        width = max(len(self.points_by_size), int(sizes.max(initial=0)) + 1)
        wider = width - len(self.points_by_size)
        point, label = nonzero_pairs(labels).T
        hit_point, hit_rank = np.nonzero(are_entries(ids, csr_matrix(labels)))
        hit_label = ids[hit_point, hit_rank]

        best_rank, occurs = self.best_rank.copy(), self.occurs.copy()
        np.minimum.at(best_rank, hit_label, hit_rank.astype(np.int32))
        occurs[label] = True
        new = replace(
            self,
            points_by_size=np.pad(self.points_by_size, (0, wider))
            + np.bincount(sizes, minlength=width),
            hits_by_size=np.pad(self.hits_by_size, ((0, 0), (0, wider)))
            + _count_pairs(hit_rank, sizes[hit_point], (ranks, width)),
            best_rank=best_rank,
            occurs=occurs,
        )
        if self.label_class is not None:
            new = replace(
                new,
                class_hits=self.class_hits
                + _count_pairs(hit_rank, self.label_class[hit_label], self.class_hits.shape),
                class_ideal=self.class_ideal
                + _ideal_counts(
                    point, self.label_class[label], labels.indptr, self.class_ideal.shape
                ),
            )
        if self.label_group is not None:
            groups = len(self.group_occurrences)
            new = replace(
                new,
                group_hits=self.group_hits
                + _count_pairs(hit_rank, self.label_group[hit_label], (ranks, groups)),
                group_occurrences=self.group_occurrences
                + np.bincount(self.label_group[label], minlength=groups),
            )
        return new

    def _checked(
        self, topk_ids: NDArray, labels: CSR, leave_out: NDArray | None
    ) -> tuple[NDArray, CSR]:
        """The first max(ks) answers, int64, and the canonical labels of the points that count."""
        if topk_ids.dtype.kind not in "iu":
            raise ValueError(f"topk_ids must be integers, found {topk_ids.dtype}")
        ranks, num_labels = self.ks[-1], len(self.occurs)
        if (
            topk_ids.ndim != 2
            or topk_ids.shape[1] < ranks
            or labels.shape != (len(topk_ids), num_labels)
        ):
            raise ValueError(
                f"expected topk_ids [n, >= {ranks}] and labels [n, {num_labels}], "
                f"found {topk_ids.shape} and {labels.shape}"
            )
        ids = topk_ids[:, :ranks].astype(np.int64)
        labels = canonical(labels)
        if leave_out is not None:
            leave_out = np.asarray(leave_out)
            if leave_out.dtype != bool or leave_out.shape != (len(ids),):
                found = f"{leave_out.dtype} {list(leave_out.shape)}"
                raise ValueError(f"leave_out must be bool [{len(ids)}], found {found}")
            ids, labels = ids[~leave_out], labels[~leave_out]
        if ids.size and not -1 <= ids.min() <= ids.max() < num_labels:
            raise ValueError(
                f"answers must be labels from 0 to {num_labels - 1}, or -1 for none; "
                f"found {ids.min()} to {ids.max()}"
            )
        ordered = np.sort(ids, axis=1)
        if np.any((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)):
            raise ValueError("an answer appears twice in a row of topk_ids")
        return ids, labels

    def result(self) -> dict[str, float]:
        """The metrics in percent, and the number of points.

        Means are over the points that have labels; points without labels are only counted. For each
        k:

          - `P@k`: hits among the first k predictions, divided by k.
          - `R@k`: hits among the first k predictions, divided by the number of labels of the point.
          - `F1@k`: 2 hits among the first k predictions, divided by the sum of k and the number of
            labels of the point: the harmonic mean of its precision and recall at k.
          - `nDCG@k`: the sum of 1 / log2(1 + rank) over the hits, divided by the same sum over
            ranks 1 .. min(k, number of labels of the point) (Jarvelin and Kekalainen, 2002).
          - `PSP@k`, `PSnDCG@k`: P@k and DCG@k with each hit weighted by 1 / propensity. The sum
            over all points is divided by the sum of the best possible values over all points: a
            ratio of means, not a mean of ratios (Jain, Prabhu and Varma, 2016, and the tables of
            the Extreme Classification Repository).
          - `coverage@k`: the fraction of the labels that occur in the test set which are a hit for
            at least one point.

        Other tools use other definitions. pyxclib counts points without labels as zeros. Its nDCG
        has the same normalizer. Its PSnDCG divides the sum of each point by that normalizer before
        the ratio of sums, so points with fewer than k labels have a larger weight. Some tools
        normalize nDCG by all k ranks, whatever the number of labels of the point.

        Returns:
          `points` and `points_without_labels`, and the metrics if `points` is not 0.
        """
        unlabelled, points = int(self.points_by_size[0]), int(self.points_by_size[1:].sum())
        metrics: dict[str, float] = {"points": points, "points_without_labels": unlabelled}
        if not points:
            return metrics
        # Sums of count * value over the few distinct values, in a fixed order: few roundings.
        ranks, max_size = self.ks[-1], len(self.points_by_size) - 1
        discount = 1.0 / np.log2(np.arange(ranks) + 2.0)
        ideal = np.cumsum(discount)
        hits = self.hits_by_size[:, 1:]
        size = np.arange(1, max_size + 1)
        for k in self.ks:
            by_size = hits[:k].sum(axis=0)
            gains = discount[:k] @ hits[:k] / ideal[np.minimum(size, k) - 1]
            covered = int(np.count_nonzero(self.best_rank < k))
            values = {
                "P": 100.0 * float(by_size.sum()) / (k * points),
                "R": 100.0 * float((by_size / size).sum()) / points,
                "F1": 100.0 * float((2 * by_size / (k + size)).sum()) / points,
                "nDCG": 100.0 * float(gains.sum()) / points,
                "coverage": 100.0 * covered / int(self.occurs.sum()),
            }
            if self.label_class is not None:
                gain = self.class_hits[:k] @ self.class_weight
                ideal_gain = self.class_ideal[:k] @ self.class_weight
                psndcg = float((discount[:k] @ gain) / (discount[:k] @ ideal_gain))
                values["PSP"] = 100.0 * float(gain.sum() / ideal_gain.sum())
                values["PSnDCG"] = 100.0 * psndcg
            metrics |= {f"{name}@{k}": values[name] for name in _MEASURES if name in values}
        return metrics

    def by_group(self, k: int) -> list[dict[str, float]]:
        """Recall and precision of each label group, rarest group first.

        Args:
          k: at most max(ks).

        Returns:
          One entry per group: `labels`, its number of labels; `occurrences`, its (point, label)
          pairs in the test set; `recall`, the percentage of these that are among the first k
          predictions (a ratio of sums; 0 without occurrences); `precision`, the group's
          contribution to P@k in percent, so that the groups sum to P@k.
        """
        if self.label_group is None:
            return []
        if not 1 <= k <= self.ks[-1]:
            raise ValueError(f"k must be from 1 to {self.ks[-1]}, found {k}")
        hits = self.group_hits[:k].sum(axis=0)
        group_sizes = np.bincount(self.label_group, minlength=len(hits))
        answers = k * max(int(self.points_by_size[1:].sum()), 1)
        return [
            {
                "labels": int(num_labels),
                "occurrences": int(occurrences),
                "recall": 100.0 * int(group_hits) / max(int(occurrences), 1),
                "precision": 100.0 * int(group_hits) / answers,
            }
            for num_labels, occurrences, group_hits in zip(
                group_sizes, self.group_occurrences, hits, strict=True
            )
        ]


def _count_pairs(rank: NDArray, column: NDArray, shape: tuple[int, ...]) -> NDArray:
    """A histogram of (rank, column) pairs, int64 [R, columns]."""
    flat = rank * shape[1] + column
    return np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape)


def _ideal_counts(
    point: NDArray, label_class: NDArray, indptr: NDArray, shape: tuple[int, ...]
) -> NDArray:
    """A histogram of (rank, class) of the best predictions: labels by descending weight."""
    order = np.lexsort((-label_class, point))
    rank = np.arange(len(order)) - indptr[point[order]]
    counted = rank < shape[0]
    return _count_pairs(rank[counted], label_class[order[counted]], shape)
