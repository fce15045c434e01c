"""The kernel for NVIDIA GPUs, compiled by Triton.

A program takes a block of queries and a part of the sample, and walks the tiles of that part; the
parts keep all multiprocessors busy. It keeps the best of its part in registers, in no order. As
long as a score of the tile is above the lowest of the best of its query, the highest score of each
query takes the place of the lowest. Slots ascend, and of equal scores the one with the highest slot
gives way: ties go to the lowest slot. The best of all parts are then sorted together, by XLA.

Triton has shapes that are powers of two only, and neither top-k, sort nor slices of values.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from snm.topk.blocks import Best, Masked
from snm.topk.kernel.excluded import BITS, excluded_bits
from snm.topk.kernel.numbers import (
    LOWEST,
    Tiles,
    factors_of,
    finished,
    kept_of,
    name_of,
    precision_of,
)

__all__ = ["top_on_gpu"]

_NO_SLOT = jnp.iinfo(jnp.int32).max


def top_on_gpu(
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
      tiles: sizes are powers of two, but for `parts`; `slots` at least 32.
      compute_dtype: type of the factors.
      interpret: run it by XLA, on any device.
    """
    n, num_slots = queries.shape[0], rows.shape[0]
    kept = kept_of(count)
    args = [queries, rows]
    if offsets is not None:
        args.append(offsets)
    if masked is not None:
        args.append(excluded_bits(masked, n, num_slots, tiles.slots))
    precision = precision_of(compute_dtype, known=(lax.Precision.HIGH,))
    grid = -(-n // tiles.queries), tiles.parts
    kernel = functools.partial(
        _kernel,
        count=count,
        tiles=tiles,
        turns=-(-num_slots // (tiles.slots * tiles.parts)),
        with_offsets=offsets is not None,
        with_masked=masked is not None,
        compute_dtype=compute_dtype,
        precision=precision,
    )
    shape = tiles.parts, n, kept
    scores, slots = pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[pl.BlockSpec() for _ in args],
        out_specs=[pl.BlockSpec() for _ in range(2)],
        out_shape=[jax.ShapeDtypeStruct(shape, kind) for kind in (jnp.float32, jnp.int32)],
        compiler_params=plgpu.CompilerParams(num_warps=tiles.warps, num_stages=2),
        interpret=interpret,
        name=name_of(compute_dtype, precision, grid[0]),
    )(*args)
    scores, slots = (x[:, :, :count].swapaxes(0, 1).reshape(n, -1) for x in (scores, slots))
    lowered, slots = lax.sort((-scores, slots), dimension=1, num_keys=2)
    return finished(-lowered[:, :count], slots[:, :count])


def _kernel(
    *refs: Any,
    count: int,
    tiles: Tiles,
    turns: int,
    with_offsets: bool,
    with_masked: bool,
    compute_dtype: jnp.dtype,
    precision: lax.Precision,
) -> None:
    queries, rows, *rest = refs
    offsets = rest.pop(0) if with_offsets else None
    excluded = rest.pop(0) if with_masked else None
    out_scores, out_slots = rest
    (n, dim), num_slots, kept = queries.shape, rows.shape[0], out_scores.shape[2]
    block, part = pl.program_id(0) * tiles.queries, pl.program_id(1)
    query = block + jnp.arange(tiles.queries, dtype=jnp.int32)
    real_query = (query < n)[:, None]
    place = lax.broadcasted_iota(jnp.int32, (tiles.queries, kept), 1)

    def scores_of(begin: jax.Array, slot: jax.Array) -> jax.Array:
        real = slot < num_slots

        def add_chunk(chunk: jax.Array, total: jax.Array) -> jax.Array:
            first = chunk * tiles.depth
            column = first + jnp.arange(tiles.depth, dtype=jnp.int32)
            inside, depth = (column < dim)[None, :], pl.ds(first, tiles.depth)
            left = plgpu.load(
                queries.at[pl.ds(block, tiles.queries), depth], mask=real_query & inside, other=0
            )
            right = plgpu.load(
                rows.at[pl.ds(begin, tiles.slots), depth], mask=real[:, None] & inside, other=0
            )
            return total + lax.dot_general(
                left.astype(compute_dtype),
                factors_of(right, compute_dtype),
                (((1,), (1,)), ((), ())),
                preferred_element_type=jnp.float32,
                precision=precision,
            )

        none = jnp.zeros((tiles.queries, tiles.slots), jnp.float32)
        found = lax.fori_loop(0, -(-dim // tiles.depth), add_chunk, none)
        if offsets is not None:
            found += plgpu.load(offsets.at[pl.ds(begin, tiles.slots)], mask=real, other=0)[None, :]
        if excluded is not None:
            words = tiles.slots // BITS
            within = slot - begin
            word = begin // BITS + within % words
            bits = plgpu.load(
                excluded.at[word[None, :], query[:, None]],
                mask=real_query & real[None, :],
                other=0,
            )
            found = jnp.where((bits >> (within // words)[None, :]) & 1 == 1, LOWEST, found)
        # Not a number is neither above nor below: it counts as excluded.
        found = jnp.where(found > LOWEST, found, LOWEST)
        return jnp.where(real[None, :], found, -jnp.inf)

    def search(turn: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        begin = (part * turns + turn) * tiles.slots
        slot = begin + jnp.arange(tiles.slots, dtype=jnp.int32)

        def going(carry: tuple) -> jax.Array:
            scores, best, _ = carry
            above = jnp.max(scores, axis=1) > jnp.min(best, axis=1)
            return jnp.max(above.astype(jnp.int32)) > 0

        def replace_lowest(carry: tuple) -> tuple:
            scores, best, slots = carry
            highest = jnp.max(scores, axis=1)
            at = jnp.where(scores == highest[:, None], slot[None, :], _NO_SLOT)
            at = jnp.min(at, axis=1)
            scores = jnp.where(slot[None, :] == at[:, None], -jnp.inf, scores)
            lowest = jnp.min(best, axis=1)
            last = jnp.max(jnp.where(best == lowest[:, None], slots, -1), axis=1)
            here = (slots == last[:, None]) & (highest > lowest)[:, None]
            best = jnp.where(here, highest[:, None], best)
            return scores, best, jnp.where(here, at[:, None], slots)

        return lax.while_loop(going, replace_lowest, (scores_of(begin, slot), *carry))[1:]

    # Places past the count are never the lowest. The slots of empty places differ.
    best = jnp.where(place < count, -jnp.inf, jnp.inf)
    best, slots = lax.fori_loop(0, turns, search, (best, _NO_SLOT - place))
    for out, values in ((out_scores, best), (out_slots, slots)):
        plgpu.store(out.at[part, pl.ds(block, tiles.queries), :], values,
                    mask=jnp.broadcast_to(real_query, place.shape))  # fmt: skip
