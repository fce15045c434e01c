"""The labels drawn for a batch, and the slot that each term leaves out.

Samplers are pure functions of (seed, step): a checkpoint does not store them, and any step can be
repeated alone. All terms of a batch share one draw, so that scoring it is one matrix product. Each
(point, positive) term then leaves out one slot of the draw: the one that `excluded_slots` returns.
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from snm.errors import InputError
from snm.machine.platform import by_platform
from snm.text import counted

__all__ = [
    "STREAM",
    "Array",
    "Sample",
    "check_sample",
    "excluded_slots",
    "find_slots",
    "host_rng",
    "sample_of_draws",
]

Array = jax.Array | np.ndarray[Any, Any]

STREAM = 0x534E4D
"""Separates the random numbers of samplers from others of the same seed (`snm.batches.streams`)."""


class Sample(NamedTuple):
    """One draw of labels, shared by all terms of a batch: S slots, fixed at compile time.

    Attributes:
      ids: int32 [S], ascending: the labels drawn. Unused slots come last and hold `num_labels`,
        which is not a label.
      drop: int32 scalar: the slot that a term leaves out when its positive is not among `ids`.
        S, one past the last slot, leaves out none.
      log_weights: float32 [S], or None for zeros: what a sampled softmax adds to the score of the
        negative in each slot (natural logarithm; -inf in unused slots).
      num_drawn: int32 scalar, the labels in `ids`, where the batch decides how many there are;
        weights over ranks are then rescaled by `RankWeights.count_factors`. None where B is drawn.
    """

    ids: Array
    drop: Array
    log_weights: Array | None = None
    num_drawn: Array | None = None


def check_sample(
    sample: object, where: str, num_labels: int, *, slots: int | None = None, ranks: bool = False
) -> None:
    """Checks what a sampler drew on the host.

    Args:
      sample: what it returned.
      where: names the sampler and the step in an error.
      num_labels: K.
      slots: S that was asked for; None where the batch decides.
      ranks: whether the loss has weights over ranks, which need labels that are drawn once.

    Raises:
      InputError: it is not a `Sample`, or breaks the rules in the docstring of `Sample`. Training
        would use wrong labels, score a label twice, or learn from meaningless numbers.
    """
    if not isinstance(sample, Sample):
        raise InputError(where, f"{type(sample).__name__} drawn", "a Sample")
    ids = np.asarray(sample.ids)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or not ids.size:
        raise InputError(where, f"ids {ids.dtype}{list(ids.shape)}", "whole numbers [S]")
    size = ids.size
    if slots is not None and size != slots:
        raise InputError(where, f"{size} slots", f"{slots}: B and one for the positive")
    if ids[0] < 0 or ids.max() > num_labels:
        bad = ids[0] if ids[0] < 0 else ids.max()
        raise InputError(where, f"label {bad}", f"labels from 0 to {num_labels - 1}")
    unordered = np.flatnonzero((ids[1:] <= ids[:-1]) & (ids[1:] != num_labels))
    if unordered.size:
        found = f"label {ids[unordered[0] + 1]} after {ids[unordered[0]]}"
        raise InputError(where, found, f"ascending labels, then {num_labels} in unused slots")
    drop = np.asarray(sample.drop)
    if drop.ndim or drop.dtype.kind not in "iu" or not 0 <= drop <= size:
        raise InputError(where, f"drop {drop}", f"a slot from 0 to {size}")
    if sample.log_weights is not None:
        weights = np.asarray(sample.log_weights)
        if weights.shape != ids.shape or weights.dtype.kind != "f":
            found = f"log_weights {weights.dtype}{list(weights.shape)}"
            raise InputError(where, found, f"floats [{size}], one a slot")
        if not (weights < np.inf).all():  # NaN is not below it either
            raise InputError(where, "log_weights that are NaN or inf", "numbers, or -inf")
    count = int(np.sum(ids < num_labels))
    if sample.num_drawn is not None:
        drawn = np.asarray(sample.num_drawn)
        if drawn.ndim or drawn.dtype.kind not in "iu" or drawn != count:
            raise InputError(where, f"num_drawn {drawn}", f"{count}, the labels in ids")
    elif ranks and count < size:
        found = f"{counted(count, 'label')} in {size} slots"
        expected = (
            f"{size} different labels, as the loss weighs ranks, or --loss softmax "
            "(where the batch decides how many there are, the sample says so in num_drawn)"
        )
        raise InputError(where, found, expected)


def find_slots(ids: Array, labels: Array) -> jax.Array:
    """Finds labels in a sample.

    Args:
      ids: int32 [S], ascending (`Sample.ids`).
      labels: int32, any shape. `num_labels`, the padding of `ids`, finds an unused slot.

    Returns:
      int32, the shape of `labels`: the first slot that holds the label, or -1.
    """
    ids, labels = jnp.asarray(ids), jnp.asarray(labels)
    slots = jnp.minimum(_searchsorted(ids, labels), ids.shape[0] - 1)
    return jnp.where(ids[slots] == labels, slots, -1).astype(jnp.int32)


def _searchsorted(ids: jax.Array, labels: jax.Array) -> jax.Array:
    """`jnp.searchsorted`, unrolled on an accelerator, where a loop of tiny steps is slow."""
    unrolled = functools.partial(jnp.searchsorted, method="scan_unrolled")
    return by_platform(ids, labels, cpu=jnp.searchsorted, default=unrolled)


def excluded_slots(sample: Sample, labels: Array, *, slots: Array | None = None) -> jax.Array:
    """The slot that each term leaves out: that of its positive, or else `sample.drop`.

    Args:
      sample: the draw of the batch.
      labels: int32, any shape: the positive of each term.
      slots: `find_slots(sample.ids, labels)`, where the caller has it; None searches for it.

    Returns:
      int32, the shape of `labels`, from 0 to S; S leaves nothing out.
    """
    slots = find_slots(sample.ids, labels) if slots is None else jnp.asarray(slots)
    return jnp.where(slots >= 0, slots, jnp.asarray(sample.drop, jnp.int32))


def host_rng(seed: int, step: int) -> np.random.Generator:
    """NumPy's generator for the draw of one step.

    Raises:
      InputError: the seed or the step is no whole number of at least 0.
    """
    for name, value in (("seed", seed), ("step", step)):
        if not isinstance(value, numbers.Integral) or value < 0:
            raise InputError(name, repr(value)[:80], "a whole number of at least 0")
    return np.random.default_rng(np.random.SeedSequence([seed, STREAM, step]))


def sample_of_draws(
    drawn: np.ndarray[Any, Any],
    num_labels: int,
    log_q: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]],
) -> Sample:
    """The sample of independent draws with replacement; a repeated label takes one slot.

    With c_j of S draws of label j, slot j carries log(c_j) - log(S q_j) (Bengio and Senecal,
    2008; "logQ" of Yi et al., 2019). So sum_slots exp(log_weights) f(ids) is the mean over the
    draws of f / q, whose expectation is the sum of f over all K labels: the sampled partition
    function is unbiased. That holds without the positive's slot too, so there is no surplus label:
    `drop` is S.

    Args:
      drawn: int [S], labels from 0 to K-1.
      num_labels: K.
      log_q: int [m] labels -> float64 [m], the logarithm of each one's probability in one draw.

    Returns:
      A sample with S NumPy slots; those beyond the distinct labels are unused.
    """
    size = len(drawn)
    distinct, counts = np.unique(drawn, return_counts=True)
    ids = np.full(size, num_labels, np.int32)
    ids[: len(distinct)] = distinct
    log_weights = np.full(size, -np.inf, np.float32)
    log_weights[: len(distinct)] = np.log(counts / size) - log_q(distinct)
    return Sample(ids, np.asarray(size, np.int32), log_weights)
