"""The highest scores of each row, found on all cores.

XLA:CPU's top-k is a partial sort on the one core that calls it. Rows need nothing of each other, so
they are cut into parts: where more than eight operations are ready at once, XLA hands half of them
to another core, and half of those to the next.
"""

from __future__ import annotations

import functools
import itertools
import os

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["highest"]

_KEPT = 8  # operations that XLA:CPU leaves on the core that finds them ready
_ROWS = 8  # a part; fewer are sorted in less time than it takes to hand them over


def highest(scores: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """`lax.top_k`: the `count` highest of each row, falling, ties to the first.

    Args:
      scores: [n, S].
      count: at most S.

    Returns:
      [n, count] scores, and int32 [n, count], their places.
    """
    whole = functools.partial(_in_parts, count=count, parts=1)
    if (parts := _parts(scores.shape[0])) == 1:
        return whole(scores)
    in_parts = functools.partial(_in_parts, count=count, parts=parts)
    return lax.platform_dependent(scores, cpu=in_parts, default=whole)


def _parts(rows: int) -> int:
    """Into how many parts rows are cut: enough for each core to be handed some, or one."""
    parts = _KEPT * _cores()
    return parts if parts > _KEPT and rows >= parts * _ROWS else 1


def _cores() -> int:
    """Those that this process may use."""
    mine = getattr(os, "sched_getaffinity", None)  # Linux has it
    return len(mine(0)) if mine is not None else os.cpu_count() or 1


def _in_parts(scores: jax.Array, *, count: int, parts: int) -> tuple[jax.Array, jax.Array]:
    ends = [part * scores.shape[0] // parts for part in range(parts + 1)]
    found = [lax.top_k(scores[a:b], count) for a, b in itertools.pairwise(ends)]
    values, places = zip(*found, strict=True)
    return jnp.concatenate(values), jnp.concatenate(places)
