"""The batch's own positives as candidates, with the logQ correction."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from snm.sampling.sample import Array, Sample

__all__ = ["in_batch", "in_batch_log_weights"]


def in_batch(
    labels: Array, size: int, num_labels: int, *, label_log_weights: Array | None = None
) -> Sample:
    """The distinct positives of a batch as the candidates of all its points ("in-batch negatives").

    There is no surplus label: `drop` is S.

    Args:
      labels: int32, any shape: the positives of the batch. Entries outside 0 .. K-1 are padding.
      size: S, static: at least the number of distinct positives in any batch. If a batch had
        more, those with the highest ids would be missing; `min(labels.size, num_labels)` always
        suffices.
      num_labels: K, static.
      label_log_weights: float32 [K] or None: the correction of each label, from
        `in_batch_log_weights`.

    Returns:
      A sample with S = `size` slots.
    """
    labels = jnp.asarray(labels, jnp.int32).reshape(-1)
    labels = jnp.where((labels >= 0) & (labels < num_labels), labels, num_labels)
    ids = jnp.unique(labels, size=size, fill_value=num_labels)
    drop = jnp.asarray(size, jnp.int32)
    if label_log_weights is None:
        return Sample(ids, drop)
    weights = jnp.asarray(label_log_weights, jnp.float32)
    found = weights.at[ids].get(mode="fill", fill_value=-jnp.inf)
    return Sample(ids, drop, found)


def in_batch_log_weights(
    label_frequency: Array, num_points: int, batch_size: int
) -> np.ndarray[Any, Any]:
    """The logQ correction of in-batch negatives: -log P(label is among the batch's positives).

    A batch is `batch_size` of `num_points` points without replacement, so a label that f points
    carry is missing with probability prod_{i < batch_size} (1 - f / (num_points - i)). Dividing
    by the probability of being present makes the sum over the distinct positives an unbiased
    estimate of the sum over all labels that occur (Horvitz and Thompson, 1952). It is not
    conditioned on the point of the term being in the batch. Yi et al. (2019) estimate the same
    probability from a stream; here the frequencies are known.

    Args:
      label_frequency: int [K], points that carry each label. 0 is treated as 1: such a label is
        never in a batch of these points.
      num_points: points in the training set.
      batch_size: points in a batch, from 1 to `num_points`.

    Returns:
      float32 [K], >= 0.

    Raises:
      ValueError: `batch_size` is not from 1 to `num_points`.
    """
    if not 1 <= batch_size <= num_points:
        raise ValueError(f"batch_size must be from 1 to {num_points} points, found {batch_size}")
    frequency = np.maximum(np.asarray(label_frequency, np.int64), 1)
    # Few frequencies are distinct, which makes the exact product cheap.
    distinct, place = np.unique(frequency, return_inverse=True)
    log_missing = np.zeros(len(distinct))
    with np.errstate(divide="ignore"):  # log 0: the label is in every batch
        for i in range(batch_size):
            log_missing += np.log1p(-np.minimum(distinct / (num_points - i), 1.0))
    return (-np.log(-np.expm1(log_missing))).astype(np.float32)[place]
