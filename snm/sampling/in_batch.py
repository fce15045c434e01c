"""The positives of the batch as the negatives of all its points, with the logQ correction."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from snm.sampling.protocol import SamplerInputs
from snm.sampling.sample import Array, Sample

__all__ = ["InBatchSampler", "in_batch", "in_batch_log_weights"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class InBatchSampler:
    """Takes the distinct positives of each batch; nothing is drawn at random.

    Attributes:
      num_labels: K.
      label_log_weights: float32 [1 or 2, K], from `in_batch_log_weights`: those of a full batch
        and, if the last batch of an epoch has fewer points, those of that batch.
      steps_per_epoch: batches of an epoch.
    """

    needs_label_frequency: ClassVar[bool] = False
    needs_batch_positives: ClassVar[bool] = True
    uniform: ClassVar[bool] = False
    with_replacement: ClassVar[bool] = False

    num_labels: int
    label_log_weights: np.ndarray[Any, Any]
    steps_per_epoch: int = 1

    @classmethod
    def build(cls, inputs: SamplerInputs) -> InBatchSampler:
        """The sampler of a run; its samples have min(T, K) slots instead of `inputs.size`."""
        draws, points, batch = inputs.label_draws, inputs.num_points, inputs.batch_size
        if draws is None:
            raise ValueError("this sampler needs label_draws, float [2, num_labels]; found None")
        last = points % batch
        weights = [in_batch_log_weights(draws, points, n) for n in (batch, last) if n]
        return cls(
            num_labels=inputs.num_labels,
            label_log_weights=np.stack(weights),
            steps_per_epoch=-(-points // batch),
        )

    def on_host(self, step: int, positives: np.ndarray[Any, Any] | None) -> Sample:
        """The sample of a batch by its positives, int32 [T]."""
        return self._sample(step, positives)

    def on_device(self, step: Array, positives: Array | None, seed: Array) -> Sample:
        """The same in JAX; `seed` is not read."""
        return self._sample(step, positives)

    def _sample(self, step: Any, positives: Array | None) -> Sample:
        if positives is None:
            raise ValueError("in-batch sampling needs the positives of the batch; found None")
        sample = in_batch(positives, num_labels=self.num_labels)
        is_last = step % self.steps_per_epoch == self.steps_per_epoch - 1
        row = is_last * (len(self.label_log_weights) - 1)
        ids: Any = sample.ids
        xp = ids.__array_namespace__()
        weights = xp.asarray(self.label_log_weights, dtype=np.float32)
        log_weights = weights[row, xp.minimum(ids, self.num_labels - 1)]
        log_weights = xp.where(ids < self.num_labels, log_weights, np.float32(-np.inf))
        return sample._replace(log_weights=log_weights)


def in_batch(labels: Array, *, num_labels: int) -> Sample:
    """The distinct positives of a batch as the sample of all its points ("in-batch negatives").

    There is no surplus label: `drop` is S. NumPy and JAX share all operations used here, and shapes
    are known at compile time, so one function serves the host and the device.

    Args:
      labels: int32, any shape, of NumPy or JAX: the positives of the batch. Entries outside
        0 .. K-1 are padding.
      num_labels: K, static.

    Returns:
      A sample with S = min(T, K) slots, for T entries of `labels`, and its `num_drawn`, arrays of
      the library of `labels`; it has no log weights.
    """
    xp: Any = labels.__array_namespace__()
    labels = xp.asarray(labels, dtype=np.int32).reshape(-1)
    size = min(labels.size, num_labels)
    labels = xp.where((labels >= 0) & (labels < num_labels), labels, num_labels)
    # Unused slots hold `num_labels`. Repeated labels become unused slots, which sort to the end.
    ordered = xp.sort(labels)
    repeated = xp.concatenate([xp.zeros(1, bool), ordered[1:] == ordered[:-1]])
    ids = xp.sort(xp.where(repeated, num_labels, ordered))[:size]
    drop = xp.asarray(size, dtype=np.int32)
    count = xp.asarray(xp.sum(ids < num_labels), dtype=np.int32)
    return Sample(ids, drop, None, count)


def in_batch_log_weights(
    label_draws: Array, num_points: int, batch_size: int
) -> np.ndarray[Any, Any]:
    """The logQ correction of in-batch negatives: -log P(label is among the batch's positives).

    A batch is `batch_size` of `num_points` points without replacement, and a point i that carries a
    label takes it with probability p_i: 1 where all positives enter, 1 / m where one of m is drawn.
    Dividing by the probability of being present makes the sum over the distinct positives an
    unbiased estimate of the sum over all labels that occur (Horvitz and Thompson, 1952). It is not
    conditioned on the point of the term being in the batch. Yi et al. (2019) estimate the same
    probability from a stream; here the labels are known.

    The batches of a run take equally many points of each of up to 64 strips of the file
    (`snm.batches.epoch_order.Order`). That makes no difference unless the order of the file tells
    the labels: where it is sorted by them, a label is present more often than this says.

    The batch is drawn point by point. Each draw misses the label with probability 1 - q / N, where
    N is the number of points left and q the expected sum of their p_i. After a miss, each point of
    the label is still left with probability (N - 1 - q + r p) / (N - q), where r is the probability
    that it was left before and p is the mean of the p_i, weighted by p_i. This is exact if one
    point carries the label or all p_i are 1; otherwise the points are not quite independent.

    Args:
      label_draws: float64 [2, K], the sums of p_i and of its square over the points that carry each
        label. 0 is treated as 1: such a label is never in a batch of these points.
      num_points: points in the training set.
      batch_size: points in a batch, from 1 to `num_points`.

    Returns:
      float32 [K], >= 0.

    Raises:
      ValueError: `batch_size` is not from 1 to `num_points`.
    """
    if not 1 <= batch_size <= num_points:
        raise ValueError(f"batch_size must be from 1 to {num_points} points, found {batch_size}")
    draws = np.asarray(label_draws, np.float64)
    draws = np.where(draws[0] > 0, draws, 1.0)
    # Where all positives enter, few sums are distinct.
    (expected, squares), inverse = np.unique(draws, axis=1, return_inverse=True)
    mean_draw, still_left = squares / expected, np.ones(len(expected))
    log_missing = np.zeros(len(expected))
    with np.errstate(divide="ignore", invalid="ignore"):  # log 0: the label is in every batch
        for left in range(num_points, num_points - batch_size, -1):
            log_missing += np.log1p(-np.minimum(expected / left, 1.0))
            stay = (left - 1 - expected + still_left * mean_draw) / (left - expected)
            stay = np.clip(np.where(expected < left, stay, 1.0), 0.0, 1.0)
            expected, still_left = expected * stay, still_left * stay
    return (-np.log(-np.expm1(log_missing))).astype(np.float32)[inverse.reshape(-1)]
