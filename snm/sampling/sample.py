"""(seed, step) -> the labels that a batch is compared with, and which of them a term leaves out.

Every sampler is a pure function of (seed, step): there is nothing of it to checkpoint, and a step
can be repeated alone. A batch shares one draw, so that scoring it is one matrix product; each
(point, positive) term then leaves out exactly one slot of the draw, named by `excluded_slots`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from snm.sampling.permutation import permuted

__all__ = [
    "FrequencySampler",
    "Sample",
    "auto_size",
    "excluded_slots",
    "in_batch",
    "in_batch_log_weights",
    "slots_of",
    "uniform_device",
    "uniform_host",
]

Array = jax.Array | np.ndarray[Any, Any]

# Parts the random numbers of this file from those that others derive from the same seed.
_STREAM = 0x534E4D


class Sample(NamedTuple):
    """One draw of labels, shared by all terms of a batch. S slots, fixed at compile time.

    Attributes:
      ids: int32 [S], ascending: the labels drawn. Slots left over come last and hold
        `num_labels`, which is no label.
      drop: int32 scalar: the slot that a term leaves out when its positive is not among `ids`.
        S, one past the last slot, stands for none: such a sample has no surplus label.
      log_weights: float32 [S], or None for zeros: what a sampled softmax adds to the score of the
        negative in each slot (natural logarithm; -inf in slots left over).
    """

    ids: Array
    drop: Array
    log_weights: Array | None = None


def uniform_host(seed: int, step: int, num_labels: int, size: int) -> Sample:
    """Draws `size` of `num_labels` labels uniformly, without replacement, with NumPy.

    For B negatives ask for size = B + 1. The wanted law: draw B + 1 labels in uniformly random
    order; leave out the positive if it is among them, else the last; what remains is uniform over
    the B-subsets of the other labels. Only the set and its last member matter, and given the set
    the last member is uniform in it. So a uniform set and a uniform `drop` slot have the same
    law, and nothing needs shuffling.

    The cost is O(size log size) at any number of labels: NumPy switches between Floyd's sampling
    (Bentley and Floyd, 1987) and a partial shuffle, which it uses only where size > K / 50.

    Args:
      seed: the seed of the run, >= 0.
      step: the training step, >= 0.
      num_labels: K.
      size: B + 1, from 1 to K; K gives every label.

    Returns:
      A sample with S = `size` NumPy slots, none left over, and no `log_weights`.

    Raises:
      ValueError: `size` is not from 1 to K.
    """
    _check_size(num_labels, size)
    rng = _host_rng(seed, step)
    drop = np.asarray(rng.integers(size), np.int32)
    if size == num_labels:
        return Sample(np.arange(num_labels, dtype=np.int32), drop)
    ids = rng.choice(num_labels, size, replace=False, shuffle=False)
    return Sample(np.sort(ids.astype(np.int32)), drop)


def uniform_device(seed: int | Array, step: int | Array, num_labels: int, size: int) -> Sample:
    """Draws `size` of `num_labels` labels uniformly, without replacement, on the device.

    The labels are the images of 0 .. size-1 under a pseudo-random permutation of 0 .. K-1 (see
    `snm.sampling.permutation`). A permutation has no duplicates, so nothing is rejected, and its
    cost depends on `size` alone. Neighbouring inputs land on unrelated places, unlike under an
    affine map i -> (a i + c) mod K, whose gaps between sorted labels take three values only.

    `drop` is the slot of the image of size - 1, the last one drawn (see `uniform_host` for why
    that excludes a positive exactly).

    Args:
      seed: the seed of the run; may be traced.
      step: the training step, int32; may be traced.
      num_labels: K, from 1 to 2^31 - 1; static under `jax.jit`.
      size: B + 1, from 1 to K; static. K gives every label.

    Returns:
      A sample with S = `size` slots, none left over, and no `log_weights`.

    Raises:
      ValueError: `size` is not from 1 to K, or K is above 2^31 - 1.
    """
    _check_size(num_labels, size)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _STREAM), step)
    if size == num_labels:
        drop = jax.random.randint(key, (), 0, size, jnp.int32)
        return Sample(jnp.arange(num_labels, dtype=jnp.int32), drop)
    order = permuted(key, num_labels, size).astype(jnp.int32)
    drop = jnp.sum(order < order[-1], dtype=jnp.int32)
    return Sample(jnp.sort(order), drop)


class FrequencySampler:
    """Draws labels with replacement in proportion to (frequency + 1) ** power.

    Adding one keeps a label that the training set never shows drawable, so that every log q is
    finite. power 1 follows the frequencies, 0 is uniform, 0.75 is the choice of Mikolov et al.
    (2013).

    Attributes:
      num_labels: K.
      log_q: float64 [K], the logarithm of each label's probability in one draw.
    """

    def __init__(self, label_frequency: Array, power: float = 1.0):
        """Sets up the cumulative sums: O(K), once.

        Args:
          label_frequency: int [K], training points that carry each label.
          power: >= 0.

        Raises:
          ValueError: no labels, a negative frequency, or a negative power.
        """
        frequency = np.asarray(label_frequency, np.float64)
        if frequency.ndim != 1 or not frequency.size or frequency.min() < 0 or power < 0:
            raise ValueError(
                "label_frequency must be one non-negative count a label, and power >= 0; "
                f"found shape {frequency.shape}, power {power}"
            )
        weights = (frequency + 1.0) ** power
        self.num_labels = len(frequency)
        self.log_q = np.log(weights / weights.sum())
        self._cumulative = np.cumsum(weights)

    def draw(self, seed: int, step: int, size: int) -> Sample:
        """Draws `size` labels with replacement in O(size log K); a repeated label takes one slot.

        With c_j draws of label j, slot j carries log(c_j) - log(size q_j) (Bengio and Senecal,
        2008; "logQ" of Yi et al., 2019). So sum_slots exp(log_weights) f(ids) is the mean over
        the draws of f / q, whose expectation is the sum of f over all K labels: the sampled
        partition function is unbiased. That holds without the positive's slot too, so there is
        no surplus label: `drop` is S.

        Args:
          seed: the seed of the run, >= 0.
          step: the training step, >= 0.
          size: draws, and S: slots beyond the distinct labels are left over.

        Returns:
          A sample with S = `size` NumPy slots.

        Raises:
          ValueError: `size` is below 1.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, found {size}")
        points = _host_rng(seed, step).random(size) * self._cumulative[-1]
        drawn = np.searchsorted(self._cumulative, points, side="right")
        # The product may round up to the total, which lies past the last label.
        drawn = np.minimum(drawn, self.num_labels - 1)
        distinct, counts = np.unique(drawn, return_counts=True)
        ids = np.full(size, self.num_labels, np.int32)
        ids[: len(distinct)] = distinct
        log_weights = np.full(size, -np.inf, np.float32)
        log_weights[: len(distinct)] = np.log(counts / size) - self.log_q[distinct]
        return Sample(ids, np.asarray(size, np.int32), log_weights)


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


def slots_of(ids: Array, labels: Array) -> jax.Array:
    """Finds labels in a sample.

    Args:
      ids: int32 [S], ascending (`Sample.ids`).
      labels: int32, any shape. A label equal to the value that pads `ids` finds a padded slot.

    Returns:
      int32, the shape of `labels`: the first slot that holds the label, or -1.
    """
    ids, labels = jnp.asarray(ids), jnp.asarray(labels)
    slots = jnp.minimum(jnp.searchsorted(ids, labels), ids.shape[0] - 1)
    return jnp.where(ids[slots] == labels, slots, -1).astype(jnp.int32)


def excluded_slots(sample: Sample, labels: Array) -> jax.Array:
    """The one slot that each term leaves out: its positive's, or `sample.drop`.

    Args:
      sample: the draw of the batch.
      labels: int32, any shape: the positive of each term.

    Returns:
      int32, the shape of `labels`, from 0 to S; S leaves nothing out.
    """
    slots = slots_of(sample.ids, labels)
    return jnp.where(slots >= 0, slots, jnp.asarray(sample.drop, jnp.int32))


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


def _check_size(num_labels: int, size: int) -> None:
    if not 1 <= size <= num_labels < 2**31:
        raise ValueError(
            f"size must be from 1 to num_labels, and num_labels below 2^31; "
            f"found size {size} of {num_labels} labels"
        )


def _host_rng(seed: int, step: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, _STREAM, step]))
