"""Computes `lax.top_k` on all cores of a CPU.

XLA:CPU's top-k is a partial sort on one core. Rows are independent, so they are split into one
operation for each part: when more than eight operations are ready, XLA hands half of them to
another core, which hands on half of those in turn.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
from jax import lax

from snm.machine.cores import num_cores
from snm.machine.platform import by_platform

__all__ = ["parallel_top_k"]

_LOCAL_OPERATIONS = 8  # ready operations that XLA:CPU keeps on one core
_MIN_ROWS = 8  # rows per part; fewer are sorted faster than they are handed to another core


def parallel_top_k(scores: jax.Array, count: int) -> tuple[jax.Array, jax.Array]:
    """`lax.top_k`: the `count` highest of each row in descending order; ties go to the first.

    Args:
      scores: [n, S].
      count: at most S.

    Returns:
      [n, count] scores, and int32 [n, count], their columns.
    """
    parts = by_platform(cpu=lambda: _num_parts(scores.shape[0]), default=lambda: 1)
    return _top_k_in_parts(scores, count, parts)


def _num_parts(rows: int) -> int:
    """The number of parts to split `rows` into: as many as all cores take, or 1."""
    parts = min(_LOCAL_OPERATIONS * num_cores(), rows // _MIN_ROWS)
    return parts if num_cores() > 1 and parts > _LOCAL_OPERATIONS else 1


def _top_k_in_parts(scores: jax.Array, count: int, parts: int) -> tuple[jax.Array, jax.Array]:
    ends = [part * scores.shape[0] // parts for part in range(parts + 1)]
    parts_top_k = [lax.top_k(scores[a:b], count) for a, b in itertools.pairwise(ends)]
    values, columns = zip(*parts_top_k, strict=True)
    return jnp.concatenate(values), jnp.concatenate(columns)
