"""The jitted programs of prediction, on one device or a mesh, kept by model.

Each compiles at its first call with arguments of new shapes, or by `.lower(...).compile()`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import power_of_two
from snm.distributed.mesh import DATA, ONE_DEVICE, Axes, on_mesh, table_axes
from snm.distributed.processes import replicate
from snm.machine.compiler import answer_options
from snm.model.concordant_counts import concordant_counts
from snm.model.feature_contributions import feature_contributions
from snm.model.inference import best_labels, pair_scores, scaled_queries
from snm.model.model import Model, TrainState
from snm.model.placement import state_specs, table_bytes
from snm.tables.table import SparseRows
from snm.topk.blocks import Added, Best

__all__ = [
    "jitted_concordant_counts",
    "jitted_contributions",
    "jitted_pairs",
    "jitted_queries",
    "jitted_top",
    "scores_of_pairs",
]

_FLOATS_OF_PAIRS = 1 << 20
"""Of the class rows of pairs that are scored at once: 4 MiB, which stay in a CPU's cache (four
times as many took six times as long a pair). The number of pairs is rounded up to a power of two,
and is at least 256."""


_kept = functools.lru_cache(maxsize=8)
"""Keeps the programs of a model and what else they depend on; members share them."""


def _jitted(run: Callable[..., Any], tables: Sequence[int] = ()) -> jax.stages.Wrapped:
    return jax.jit(run, compiler_options=answer_options(tables))


@_kept
def jitted_top(model: Model, count: int, mesh: Mesh | None) -> jax.stages.Wrapped:
    """`jax.jit` of the search for the best labels of a block of points, on one device or a mesh.

    It takes the state, the block, on one device the queries of `jitted_queries`, what is added to
    the scores, if anything is, and the labels to choose from, if not all; as `best_labels`. On a
    mesh each device makes the queries of its points in the same program.
    """

    def best(
        state: TrainState,
        block: SparseRows,
        queries: jax.Array,
        added: Added | None = None,
        ids: jax.Array | None = None,
        *,
        axes: Axes = ONE_DEVICE,
    ) -> Best:
        return best_labels(model, state, block, queries, count, added=added, ids=ids, axes=axes)

    if mesh is None:
        return _jitted(best, table_bytes(model))

    def of_part(state: TrainState, block: SparseRows, *rest: Any, axes: Axes) -> Best:
        queries = scaled_queries(model, state, block, axes=axes)
        return best(state, block, queries, *rest, axes=axes)

    return _on_points(mesh, of_part, table_bytes(model, mesh))


@_kept
def jitted_queries(model: Model, mesh: Mesh | None) -> jax.stages.Wrapped:
    """`jax.jit` of `scaled_queries`."""
    queries = functools.partial(scaled_queries, model)
    tables = table_bytes(model, mesh)
    if mesh is None:
        return _jitted(queries, tables)
    return _on_points(mesh, queries, tables)


def _on_points(mesh: Mesh, run: Callable[..., Any], tables: Sequence[int]) -> jax.stages.Wrapped:
    """`run` of a state and arrays of points on a mesh; its results are gathered on all devices."""
    cut, axes = mesh.shape[DATA] > 1, table_axes(mesh)

    def of_part(state: TrainState, *points: Any) -> Any:
        if not cut:
            return run(state, *points, axes=axes)
        points = jax.tree.map(lambda x: x[0], points)
        found = run(state, *points, axes=axes._replace(data=DATA))
        return jax.tree.map(lambda x: jax.lax.all_gather(x, DATA, tiled=True), found)

    def on_all(state: TrainState, *points: Any) -> Any:
        spec = PartitionSpec(DATA) if cut else PartitionSpec()
        inputs = (state_specs(state, mesh), *jax.tree.map(lambda _: spec, points))
        return on_mesh(mesh, of_part, inputs, PartitionSpec())(state, *points)

    return _jitted(on_all, tables)


@_kept
def jitted_concordant_counts(model: Model, mesh: Mesh | None) -> jax.stages.Wrapped:
    """`jax.jit` of `concordant_counts`."""
    return _on_whole(functools.partial(concordant_counts, model), mesh)


@_kept
def jitted_contributions(model: Model) -> jax.stages.Wrapped:
    """`jax.jit` of `feature_contributions`, on one device."""
    return _jitted(functools.partial(feature_contributions, model))


@_kept
def jitted_pairs(model: Model, mesh: Mesh | None) -> jax.stages.Wrapped:
    """`jax.jit` of `pair_scores`."""
    return _on_whole(functools.partial(pair_scores, model), mesh)


def scores_of_pairs(
    model: Model,
    state: TrainState,
    mesh: Mesh | None,
    queries: NDArray[np.float32],
    mask: csr_matrix,
    block_rows: int,
    fewest: int = 0,
) -> NDArray[np.float32]:
    """The model's scores of some (query, label) pairs, some at a time.

    Args:
      model: the description.
      state: the parameters.
      mesh: the devices that hold them, or None for one.
      queries: float32 [m, members * dim].
      mask: CSR [m, K], whose entries are the pairs.
      block_rows: at least m, the rows of queries that a program takes.
      fewest: pairs that a program takes at least, where others are about as many.

    Returns:
      float32 [entries], in the order of the entries.
    """
    scored = jitted_pairs(model, mesh)
    rows = np.repeat(np.arange(mask.shape[0], dtype=np.int32), np.diff(mask.indptr))
    found = np.empty(mask.nnz, np.float32)
    most = power_of_two(_FLOATS_OF_PAIRS // queries.shape[1], 256)
    queries = np.pad(queries, ((0, max(0, block_rows - len(queries))), (0, 0)))
    for first in range(0, mask.nnz, most):
        piece = slice(first, min(first + most, mask.nnz))
        count = piece.stop - first
        size = power_of_two(max(count, min(fewest, most)), 256)
        row, label = np.zeros(size, np.int32), np.full(size, mask.shape[1], np.int32)
        row[:count], label[:count] = rows[piece], mask.indices[piece]
        pairs = queries, row, label
        scores = scored(state, *(pairs if mesh is None else replicate(pairs, mesh)))
        found[piece] = np.asarray(scores)[:count]
    return found


def _on_whole(run: Callable[..., Any], mesh: Mesh | None) -> jax.stages.Wrapped:
    """`run` of a state and arrays; on a mesh, all devices have the same arrays."""
    if mesh is None:
        return _jitted(run)
    run = functools.partial(run, axes=table_axes(mesh))

    def on_all(state: TrainState, *arrays: Any) -> jax.Array:
        whole = jax.tree.map(lambda _: PartitionSpec(), arrays)
        inputs = (state_specs(state, mesh), *whole)
        return on_mesh(mesh, run, inputs, PartitionSpec())(state, *arrays)

    return _jitted(on_all)
