"""Decides whether the kernel replaces the search by blocks, and prepares its inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from snm.losses.reductions import MASKED
from snm.machine.platform import platform
from snm.topk.blocks import Added, Best, LabelRows, Masked
from snm.topk.kernel.plan import Sizes, Tiles, choose_tiles, moves_fewer_bytes

__all__ = ["kernel_form"]

_CHOICES = ("auto", "off")


def kernel_form(
    kernel: str,
    queries: jax.Array,
    labels: LabelRows,
    count: int,
    *,
    masked: bool,
    added: bool,
    compute_dtype: jnp.dtype,
) -> Callable[..., Best] | None:
    """`best_scores` by the TPU kernel; None where the kernel is not used.

    Args:
      kernel: auto takes it on a TPU where it moves fewer bytes; off, nowhere. See
        `snm.topk.kernel.plan`.
      queries: float32 [n, dim].
      labels: S slots.
      count: how many are kept.
      masked: whether pairs are excluded.
      added: whether values are added to pairs, which the kernel cannot do.
      compute_dtype: type of the factors.

    Raises:
      ValueError: an unknown choice.
    """
    if kernel not in _CHOICES:
        raise ValueError(f"kernel is one of {', '.join(_CHOICES)}, not {kernel!r}")
    if kernel == "off" or added or platform() != "tpu":
        return None
    (n, dim), size = queries.shape, labels.table.dtype.itemsize
    sizes = Sizes(n, labels.num_searched, dim, count, size)
    tiles = choose_tiles(sizes)
    if tiles is None or not moves_fewer_bytes(tiles, sizes, masked=masked):
        return None
    from snm.topk.kernel.on_tpu import top_on_tpu  # imports its compiler

    return functools.partial(_search, top_on_tpu, tiles, count, compute_dtype)


def _search(
    run: Callable[..., Best],
    tiles: Tiles,
    count: int,
    compute_dtype: jnp.dtype,
    queries: jax.Array,
    labels: LabelRows,
    masked: Masked | None,
    added: Added | None,
) -> Best:
    """`best_scores`: reads the rows of the slots, and has the kernel search them."""
    del added  # always None here: the kernel cannot add
    rows, offsets, real = labels.table, labels.bias, None
    num_rows = rows.shape[0]
    valid = num_rows if labels.num_valid is None else labels.num_valid
    if labels.ids is not None:
        table_rows = labels.ids - labels.first_row
        real = (table_rows >= 0) & (table_rows < valid)
        table_rows = jnp.where(real, table_rows, 0)
        rows = rows.at[table_rows].get(mode="clip")
        offsets = None if offsets is None else offsets[table_rows]
    elif labels.num_valid is not None:
        real = jnp.arange(num_rows, dtype=jnp.int32) < valid
    if real is not None:
        offsets = jnp.where(real, 0.0 if offsets is None else offsets, -jnp.inf)
    best = run(
        queries, rows, offsets, masked, count=count, tiles=tiles, compute_dtype=compute_dtype
    )
    return Best(jnp.maximum(best.scores, MASKED), best.slots)
