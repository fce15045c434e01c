"""The highest scores of each point on an accelerator, by a radix search for the threshold.

The number of iterations of a bisection depends on the scores, so a GPU waits for the host at each
one. Here the k'-th highest score is found digit by digit, four bits per iteration, in eight
iterations, known at compile time. Each iteration compares all scores with fifteen candidates.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from snm.losses.reductions import MASKED, unmasked
from snm.topk.bisection import TopThreshold

__all__ = ["top_by_digits"]

_BITS = 32
_DIGIT = 4
_SIGN = np.uint32(1 << (_BITS - 1))
_ALL = np.uint32((1 << _BITS) - 1)


def top_by_digits(scores: jax.Array, count: int) -> TopThreshold:
    """`top_by_bisection` with a fixed number of iterations; the weights are the same.

    Args:
      scores: float32 [n, S]; MASKED scores are never selected.
      count: at least 1, less than S.
    """
    keys = _sort_keys(scores)

    def add_digit(iteration: jax.Array, prefix: jax.Array) -> jax.Array:
        shift = (_BITS - _DIGIT - _DIGIT * iteration).astype(jnp.uint32)
        candidates = [prefix + (jnp.uint32(d) << shift) for d in range(1, 1 << _DIGIT)]
        # The candidates ascend, so each is reached by at most as many scores as the one before.
        enough = [jnp.sum(keys >= x[:, None], axis=1) >= count for x in candidates]
        digit = sum(x.astype(jnp.uint32) for x in enough)
        return prefix + (digit << shift)

    zeros = jnp.zeros(scores.shape[0], jnp.uint32)
    last = _from_sort_keys(lax.fori_loop(0, _BITS // _DIGIT, add_digit, zeros))
    real = unmasked(scores)
    has_fewer = last <= MASKED / 2
    last = jnp.where(has_fewer, jnp.min(jnp.where(real, scores, jnp.inf), axis=1), last)
    reached = scores >= last[:, None]
    next_higher = jnp.min(jnp.where(scores > last[:, None], scores, jnp.inf), axis=1)
    possible = jnp.sum(reached & real, axis=1)
    high = jnp.where(has_fewer | (possible == count), last, next_higher)
    certain = jnp.sum(scores >= high[:, None], axis=1)
    share = (count - certain) / jnp.maximum(possible - certain, 1)
    return TopThreshold(last, high, share.astype(jnp.float32))


def _sort_keys(scores: jax.Array) -> jax.Array:
    """uint32 keys in the order of float32 numbers; the key of -0 is just below that of 0."""
    bits = lax.bitcast_convert_type(scores, jnp.uint32)
    return bits ^ jnp.where(bits >= _SIGN, _ALL, _SIGN)


def _from_sort_keys(keys: jax.Array) -> jax.Array:
    """The inverse of `_sort_keys`."""
    bits = keys ^ jnp.where(keys >= _SIGN, _SIGN, _ALL)
    return lax.bitcast_convert_type(bits, jnp.float32)
