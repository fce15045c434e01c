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

__all__ = ["Sample", "excluded_slots", "slots_of"]

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


def _host_rng(seed: int, step: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, _STREAM, step]))
