"""The kernel for TPUs, compiled by Mosaic.

The grid walks the tiles of slots for one block of queries at a time. Scores are kept transposed,
[slots, queries]: queries lie along the 128 lanes of a register, so that a maximum over slots is one
of whole registers. The best so far of each query stay in VMEM from the first tile to the last, in
descending order.

A part of 128 slots is searched as long as one of its scores is above the last of the best of its
query: each iteration removes its highest score of every query and inserts it. Slots ascend, so a
score that equals the last comes too late: ties go to the lowest slot. Of B slots in random order
about count (1 + ln(B / count)) are inserted; in ascending order of scores all would be.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from snm.topk.blocks import Best, Masked
from snm.topk.kernel.excluded import BITS, excluded_bits
from snm.topk.kernel.plan import LANES, VMEM, Tiles

__all__ = ["product_precision", "top_on_tpu"]

_SUBLANES = 8
_LOWEST = float(np.finfo(np.float32).min)
"""The score of an excluded slot in the kernel, where -inf is no slot at all: the first slots of a
query enter its best whatever their scores are, as `lax.top_k` has it."""

_FASTEST = (None, "default", "fastest", "bfloat16")
"""Values of `jax.default_matmul_precision` that ask for one product of bfloat16 factors."""


def top_on_tpu(
    queries: jax.Array,
    rows: jax.Array,
    offsets: jax.Array | None,
    masked: Masked | None,
    *,
    count: int,
    tiles: Tiles,
    compute_dtype: jnp.dtype,
    interpret: bool = False,
) -> Best:
    """The best slots of each query; see `snm.topk.product_top_k` for arguments and result.

    Args:
      queries: float32 [n, dim].
      rows: [S, dim] in the storage type, or bfloat16.
      offsets: float32 [S], or None.
      masked: pairs that must not be chosen, or None.
      count: how many slots.
      tiles: `queries` a multiple of 128 unless interpreted; `slots` of 32, and of `searched`.
      compute_dtype: type of the factors.
      interpret: run it by XLA, on any device.
    """
    n, dim = queries.shape
    num_slots = rows.shape[0]
    block, tile = tiles.queries, tiles.slots
    padded = -(-n // block) * block
    queries = jnp.pad(queries.astype(compute_dtype), ((0, padded - n), (0, 0)))
    specs = [
        pl.BlockSpec((block, dim), lambda i, j: (i, 0)),
        pl.BlockSpec((tile, dim), lambda i, j: (j, 0)),
    ]
    args = [queries, rows]
    if offsets is not None:
        specs.append(pl.BlockSpec((1, tile), lambda i, j: (0, j)))
        args.append(offsets[None, :])
    if masked is not None:
        specs.append(pl.BlockSpec((tile // BITS, block), lambda i, j: (j, i)))
        args.append(excluded_bits(masked, padded, num_slots, tile))
    padded_count = -(-count // _SUBLANES) * _SUBLANES
    precision = product_precision(compute_dtype)
    grid = padded // block, -(-num_slots // tile)
    kernel = functools.partial(
        _kernel,
        count=count,
        num_slots=num_slots,
        searched=tiles.searched,
        with_offsets=offsets is not None,
        with_masked=masked is not None,
        compute_dtype=compute_dtype,
        precision=precision,
    )
    scores, slots = pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=specs,
        out_specs=[pl.BlockSpec((padded_count, block), lambda i, j: (0, i))] * 2,
        out_shape=[
            jax.ShapeDtypeStruct((padded_count, padded), jnp.float32),
            jax.ShapeDtypeStruct((padded_count, padded), jnp.int32),
        ],
        scratch_shapes=[
            pltpu.VMEM((tile, block), jnp.float32),
            pltpu.VMEM((padded_count, block), jnp.float32),
            pltpu.VMEM((padded_count, block), jnp.int32),
        ],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=VMEM
        ),
        interpret=interpret,
        name=_kernel_name(compute_dtype, precision, grid[0]),
    )(*args)
    scores = scores[:count, :n].T
    return Best(jnp.where(scores > _LOWEST, scores, -jnp.inf), slots[:count, :n].T)


def product_precision(dtype: jnp.dtype) -> lax.Precision:
    """The precision of a product of such factors: `jax.default_matmul_precision`, or more.

    Mosaic has only the default and the highest.
    """
    requested = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    if dtype != jnp.float32 or requested in _FASTEST:
        return lax.Precision.DEFAULT
    return lax.Precision.HIGHEST


def _kernel_name(dtype: jnp.dtype, precision: lax.Precision, blocks: int) -> str:
    """The name of the kernel, from which `snm.targets.kernels` counts what it does.

    Args:
      dtype: of the factors.
      precision: of their product.
      blocks: of queries; each reads all rows.
    """
    is_default = dtype == jnp.float32 and precision == lax.Precision.DEFAULT
    kind = "default" if is_default else jnp.dtype(dtype).name
    return f"product_top_k_{kind}_{blocks}_blocks"


def _as_factors(rows: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Rows in the storage type, or bfloat16, as factors of a product."""
    if rows.dtype == jnp.uint16:
        rows = lax.bitcast_convert_type(rows, jnp.bfloat16)
    return rows.astype(dtype)


def _kernel(
    *refs: Any,
    count: int,
    num_slots: int,
    searched: int,
    with_offsets: bool,
    with_masked: bool,
    compute_dtype: jnp.dtype,
    precision: lax.Precision,
) -> None:
    queries, rows, *rest = refs
    offsets = rest.pop(0) if with_offsets else None
    excluded = rest.pop(0) if with_masked else None
    out_scores, out_slots, scores, best, slots = rest
    tile, block = scores.shape
    begin = pl.program_id(1) * tile

    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        best[...] = jnp.full(best.shape, -jnp.inf, jnp.float32)
        slots[...] = jnp.zeros(slots.shape, jnp.int32)

    products = lax.dot_general(
        _as_factors(rows[...], compute_dtype),
        queries[...],
        (((1,), (1,)), ((), ())),
        preferred_element_type=jnp.float32,
        precision=precision,
    )
    if offsets is not None:
        # From the lanes to the sublanes: a register's worth of copies, transposed.
        column = jnp.transpose(jnp.broadcast_to(offsets[...], (LANES, tile)))
        products += jnp.tile(column, (1, -(-block // LANES)))[:, :block]
    if excluded is not None:
        words = excluded[...]
        bits = jnp.concatenate([(words >> i) & 1 for i in range(BITS)], axis=0)
        products = jnp.where(bits == 1, _LOWEST, products)
    # Every comparison with NaN is false: it counts as excluded.
    products = jnp.where(products > _LOWEST, products, _LOWEST)
    slot = begin + lax.broadcasted_iota(jnp.int32, products.shape, 0)
    scores[...] = jnp.where(slot < num_slots, products, -jnp.inf)

    def search(part: jax.Array, _: None) -> None:
        first = pl.multiple_of(part * searched, searched)
        part_slots = pl.ds(first, searched)

        def exceeds_last(part_scores: jax.Array) -> jax.Array:
            return jnp.any(jnp.max(part_scores, axis=0, keepdims=True) > best[count - 1 : count, :])

        def insert_highest(_: jax.Array) -> jax.Array:
            part_scores = scores[part_slots, :]
            place = lax.broadcasted_iota(jnp.int32, part_scores.shape, 0)
            highest = jnp.max(part_scores, axis=0, keepdims=True)
            position = jnp.where(part_scores == highest, place, searched)
            position = jnp.min(position, axis=0, keepdims=True)
            part_scores = jnp.where(place == position, -jnp.inf, part_scores)
            scores[part_slots, :] = part_scores
            # Insert: lower scores move down by one. If none is lower, nothing changes.
            old, old_slots = best[...], slots[...]
            top = lax.broadcasted_iota(jnp.int32, old.shape, 0) == 0
            above = jnp.where(top, jnp.inf, pltpu.roll(old, 1, 0))
            moved = jnp.where(
                above >= highest, begin + first + position, pltpu.roll(old_slots, 1, 0)
            )
            best[...] = jnp.maximum(old, jnp.minimum(above, highest))
            slots[...] = jnp.where(old >= highest, old_slots, moved)
            return exceeds_last(part_scores)

        lax.while_loop(lambda go: go, insert_highest, exceeds_last(scores[part_slots, :]))

    lax.fori_loop(0, tile // searched, search, None)

    @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
    def _() -> None:
        out_scores[...] = best[...]
        out_slots[...] = slots[...]
