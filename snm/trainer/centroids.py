"""Class rows to start from: the centroids of the labels' training points."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterator

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.device_parts import spread_points
from snm.batches.sources.source import Source
from snm.data.weighting import Weighting
from snm.machine.compiler import answer_options
from snm.model.model import Model, TrainState
from snm.model.train_step import centroid_step
from snm.prediction.point_blocks import Blocks, one_ahead
from snm.prediction.predictor import ROWS
from snm.prediction.programs import jitted_queries
from snm.tables.rounding import as_float, round_to_nearest
from snm.tables.table import RowTable, normalize
from snm.trainer.loop import ahead, dispatches
from snm.trainer.prepare import Prepared
from snm.trainer.programs import jitted_steps

__all__ = ["centroids"]

_SHORT = 1e-3  # length of a random row that gives way to a single query, of length 1

_MOST_ON_HOST = 1 << 25
"""Numbers of class rows, 128 MiB of float32, that the host adds up beside the table."""
_MOST_QUERIES = 1 << 27
"""Numbers of the queries that it adds up."""

_ALONE = threading.Lock()
"""Held while a first block is embedded: members that start side by side would each compile it."""


def centroids(prepared: Prepared, state: TrainState) -> TrainState:
    """Replaces class rows by the directions of the mean queries of the labels' training points.

    Class rows then start as the classifier of nearest centroids (Rocchio, 1971). Points count by
    their weights. A label without points keeps its random row.

    Of a small table and few points, the host adds up queries that the program of prediction
    computes, which held-out points and a memory of neighbours need too: a program of its own takes
    longer to compile than it runs. On a mesh, and of more, a step adds up on the devices, in place.

    Args:
      prepared: the training, whose points are visited once.
      state: new parameters, consumed.
    """
    large = state.head.table.rows.size > _MOST_ON_HOST
    many = prepared.source.num_points * prepared.model.dim > _MOST_QUERIES
    make_global_array = large or many or prepared.mesh is not None
    return (_on_devices if make_global_array else _on_host)(prepared, state)


def _on_host(prepared: Prepared, state: TrainState) -> TrainState:
    """As `centroids`, from the queries of blocks of points."""
    table = state.head.table
    rows = np.array(as_float(table.rows), np.float32)
    rows *= _SHORT * np.exp(np.asarray(state.head.log_scale))
    for queries, labels in _embedded(prepared.model, state, prepared.source):
        finite = np.isfinite(queries).all(axis=1)
        _add_to_rows(rows, queries[finite], labels[finite])
    lengths = np.sqrt(np.einsum("kd,kd->k", rows, rows))
    rows /= np.maximum(lengths, np.finfo(np.float32).tiny)[:, None]
    return _with_class_rows(state, round_to_nearest(jax.device_put(rows), table.rows.dtype))


def _embedded(
    model: Model, state: TrainState, source: Source
) -> Iterator[tuple[NDArray[np.float32], csr_matrix]]:
    """Queries [m, dim], times the multiplier of scores, and labels [m, K], a block at a time."""

    def begun() -> Iterator[tuple[jax.Array, csr_matrix]]:
        embed, first = jitted_queries(model, None), 0
        # The features of a source are weighted.
        for count, block in Blocks(Weighting("none"), ROWS, entries=8).of(source.features):
            yield embed(state, block), source.labels[first : first + count]
            first += count

    blocks = begun()
    with _ALONE:
        start = list(itertools.islice(blocks, 1))
    for queries, labels in one_ahead(itertools.chain(start, blocks)):
        yield np.asarray(queries)[: labels.shape[0]], labels


def _add_to_rows(
    rows: NDArray[np.float32], queries: NDArray[np.float32], labels: csr_matrix
) -> None:
    """Adds queries [m, dim] to the rows [K, dim] of their labels, CSR [m, K], times its values."""
    found, slots = np.unique(labels.indices, return_inverse=True)
    shape = labels.shape[0], len(found)
    rows[found] += csr_matrix((labels.data, slots, labels.indptr), shape).T @ queries


def _on_devices(prepared: Prepared, state: TrainState) -> TrainState:
    """As `centroids`, by a step that adds to the rows in place."""
    source, mesh = prepared.source.for_centroids(), prepared.mesh
    resident = source.resident_arrays()
    if mesh is not None:
        resident = spread_points(resident, source.data_parts, mesh)
    programs: dict[tuple[int, int], jax.stages.Wrapped] = {}
    state = _changed(state, _shortened)
    steps = prepared.steps_per_dispatch
    plan = list(dispatches(source, 0, source.steps_per_epoch, steps, marks=[], stage_starts=[]))
    for first, _, stack in ahead(lambda _: source, plan, mesh, steps):
        shape = source.shape_of_step(first)
        if shape not in programs:
            # A pass is one visit to the points: compiling is most of it.
            programs[shape] = jitted_steps(
                prepared.model, source, shape, mesh, centroid_step, answer_options
            )
        state, _ = programs[shape](state, resident, stack)
    return _changed(state, _of_unit_length)


def _changed(state: TrainState, change: Callable[[jax.Array], jax.Array]) -> TrainState:
    """The state with its class rows changed, in place."""
    changed = jax.jit(change, donate_argnums=0, compiler_options=answer_options())
    return _with_class_rows(state, changed(state.head.table.rows))


def _with_class_rows(state: TrainState, rows: jax.Array) -> TrainState:
    table = RowTable(rows, state.head.table.accumulator)
    return dataclasses.replace(state, head=dataclasses.replace(state.head, table=table))


def _shortened(rows: jax.Array) -> jax.Array:
    return round_to_nearest(as_float(rows) * _SHORT, rows.dtype)


def _of_unit_length(rows: jax.Array) -> jax.Array:
    return round_to_nearest(normalize(as_float(rows)), rows.dtype)
