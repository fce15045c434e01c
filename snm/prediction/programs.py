"""The jitted programs of prediction, on one device or a mesh, cached by model and platform.

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
from snm.batches.device_parts import points_specs
from snm.distributed.mesh import DATA, ONE_DEVICE, Axes, on_mesh, table_axes
from snm.distributed.processes import replicate
from snm.machine.compiler import answer_options
from snm.machine.platform import cached_by_platform
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
    "jitted_pair_scores",
    "jitted_queries",
    "jitted_top",
    "score_pairs",
]

_PAIR_FLOATS = 1 << 20
"""Elements of the class rows of pairs scored together: 4 MiB, which fit into a CPU's cache (four
times as many took six times as long per pair). The number of pairs is padded to a power of two, at
least 256."""


_cached = cached_by_platform(maxsize=8)
"""Caches the programs by model, platform and the other arguments; members share them."""


def _jitted(run: Callable[..., Any], tables: Sequence[int] = ()) -> jax.stages.Wrapped:
    return jax.jit(run, compiler_options=answer_options(tables))


@_cached
def jitted_top(model: Model, count: int, mesh: Mesh | None) -> jax.stages.Wrapped:
    """`jax.jit` of `best_labels` for a block of points, on one device or a mesh.

    Its arguments are the state, the block, the queries of `jitted_queries`, then the optional
    `added` and `ids` of `best_labels`. Without queries, the same program computes them; on a mesh
    it must, where each device computes the queries of its points.
    """

    def best(
        state: TrainState,
        block: SparseRows,
        queries: jax.Array | None = None,
        added: Added | None = None,
        ids: jax.Array | None = None,
        *,
        axes: Axes = ONE_DEVICE,
    ) -> Best:
        if queries is None:
            queries = scaled_queries(model, state, block, axes=axes)
        return best_labels(model, state, block, queries, count, added=added, ids=ids, axes=axes)

    if mesh is None:
        return _jitted(best, table_bytes(model))
    return _shard_points(mesh, best, table_bytes(model, mesh))


@_cached
def jitted_queries(model: Model, mesh: Mesh | None) -> jax.stages.Wrapped:
    """`jax.jit` of `scaled_queries`."""
    queries = functools.partial(scaled_queries, model)
    tables = table_bytes(model, mesh)
    if mesh is None:
        return _jitted(queries, tables)
    return _shard_points(mesh, queries, tables)


def _shard_points(mesh: Mesh, run: Callable[..., Any], tables: Sequence[int]) -> jax.stages.Wrapped:
    """`run` on a mesh, with points sharded over its data axis; results are gathered everywhere."""
    is_sharded, axes = mesh.shape[DATA] > 1, table_axes(mesh)

    def run_shard(state: TrainState, *points: Any) -> Any:
        if not is_sharded:
            return run(state, *points, axes=axes)
        points = jax.tree.map(lambda x: x[0], points)
        results = run(state, *points, axes=axes._replace(data=DATA))
        return jax.tree.map(lambda x: jax.lax.all_gather(x, DATA, tiled=True), results)

    def on_all(state: TrainState, *points: Any) -> Any:
        inputs = (state_specs(state, mesh), *points_specs(points, mesh))
        return on_mesh(mesh, run_shard, inputs, PartitionSpec())(state, *points)

    return _jitted(on_all, tables)


@_cached
def jitted_concordant_counts(model: Model, mesh: Mesh | None) -> jax.stages.Wrapped:
    """`jax.jit` of `concordant_counts`."""
    return _replicate_inputs(functools.partial(concordant_counts, model), mesh)


@_cached
def jitted_contributions(model: Model) -> jax.stages.Wrapped:
    """`jax.jit` of `feature_contributions`, on one device."""
    return _jitted(functools.partial(feature_contributions, model))


@_cached
def jitted_pair_scores(model: Model, mesh: Mesh | None) -> jax.stages.Wrapped:
    """`jax.jit` of `pair_scores`."""
    return _replicate_inputs(functools.partial(pair_scores, model), mesh)


def score_pairs(
    model: Model,
    state: TrainState,
    mesh: Mesh | None,
    queries: NDArray[np.float32],
    mask: csr_matrix,
    block_rows: int,
    min_pairs: int = 0,
) -> NDArray[np.float32]:
    """The model's scores of (query, label) pairs, without the votes of a memory, in batches.

    Args:
      model: the description.
      state: the parameters.
      mesh: the devices that hold them, or None for one.
      queries: float32 [m, members * dim].
      mask: CSR [m, K], whose entries are the pairs.
      block_rows: at least m, the number of queries is padded to it.
      min_pairs: the number of pairs is padded to at least this, so that blocks share a program.

    Returns:
      float32 [entries], in the order of the entries.
    """
    program = jitted_pair_scores(model, mesh)
    rows = np.repeat(np.arange(mask.shape[0], dtype=np.int32), np.diff(mask.indptr))
    scores = np.empty(mask.nnz, np.float32)
    max_pairs = power_of_two(_PAIR_FLOATS // queries.shape[1], 256)
    queries = np.pad(queries, ((0, max(0, block_rows - len(queries))), (0, 0)))
    for first in range(0, mask.nnz, max_pairs):
        batch = slice(first, min(first + max_pairs, mask.nnz))
        count = batch.stop - first
        size = power_of_two(max(count, min(min_pairs, max_pairs)), 256)
        row, label = np.zeros(size, np.int32), np.full(size, mask.shape[1], np.int32)
        row[:count], label[:count] = rows[batch], mask.indices[batch]
        pairs = queries, row, label
        padded_scores = program(state, *replicate(pairs, mesh))
        scores[batch] = np.asarray(padded_scores)[:count]
    return scores


def _replicate_inputs(run: Callable[..., Any], mesh: Mesh | None) -> jax.stages.Wrapped:
    """`jax.jit` of `run`, a function of a state and arrays; a mesh replicates the arrays."""
    if mesh is None:
        return _jitted(run)
    run = functools.partial(run, axes=table_axes(mesh))

    def on_all(state: TrainState, *arrays: Any) -> jax.Array:
        replicated = jax.tree.map(lambda _: PartitionSpec(), arrays)
        inputs = (state_specs(state, mesh), *replicated)
        return on_mesh(mesh, run, inputs, PartitionSpec())(state, *arrays)

    return _jitted(on_all)
