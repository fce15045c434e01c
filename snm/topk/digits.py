"""The highest scores of each point on an accelerator, by digits of their bits.

Halving an interval ends when the interval of every point is closed: a GPU asks the host at each
turn. Here the k'-th highest score is read digit by digit, four bits a turn, and the eight turns are
known when the program is compiled. Each turn compares all scores with fifteen candidates.
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
    """`top_by_bisection` without a loop of unknown length; the weights are the same.

    Args:
      scores: float32 [n, S]; MASKED scores are never selected.
      count: at least 1, less than S.
    """
    keys = _ordered(scores)

    def one_digit(turn: jax.Array, prefix: jax.Array) -> jax.Array:
        shift = (_BITS - _DIGIT - _DIGIT * turn).astype(jnp.uint32)
        candidates = [prefix + (jnp.uint32(d) << shift) for d in range(1, 1 << _DIGIT)]
        # Reached by as many or fewer scores from one candidate to the next.
        enough = [jnp.sum(keys >= one[:, None], axis=1) >= count for one in candidates]
        digit = sum(one.astype(jnp.uint32) for one in enough)
        return prefix + (digit << shift)

    none = jnp.zeros(scores.shape[0], jnp.uint32)
    last = _number(lax.fori_loop(0, _BITS // _DIGIT, one_digit, none))
    real = unmasked(scores)
    fewer = last <= MASKED / 2
    last = jnp.where(fewer, jnp.min(jnp.where(real, scores, jnp.inf), axis=1), last)
    reached = scores >= last[:, None]
    next_higher = jnp.min(jnp.where(scores > last[:, None], scores, jnp.inf), axis=1)
    possible = jnp.sum(reached & real, axis=1)
    high = jnp.where(fewer | (possible == count), last, next_higher)
    certain = jnp.sum(scores >= high[:, None], axis=1)
    share = (count - certain) / jnp.maximum(possible - certain, 1)
    return TopThreshold(last, high, share.astype(jnp.float32))


def _ordered(scores: jax.Array) -> jax.Array:
    """uint32 keys whose order is that of float32 numbers; that of -0 is just below that of 0."""
    bits = lax.bitcast_convert_type(scores, jnp.uint32)
    return bits ^ jnp.where(bits >= _SIGN, _ALL, _SIGN)


def _number(keys: jax.Array) -> jax.Array:
    """The inverse of `_ordered`."""
    bits = keys ^ jnp.where(keys >= _SIGN, _SIGN, _ALL)
    return lax.bitcast_convert_type(bits, jnp.float32)
