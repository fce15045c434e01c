"""Initial class rows: the centroids of the labels' training points."""

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
from snm.batches.dispatches import split_into_dispatches
from snm.batches.sources.source import Source
from snm.data.weighting import Weighting
from snm.machine.compiler import answer_options
from snm.model.model import Model, TrainState
from snm.model.train_step import centroid_step
from snm.prediction.point_blocks import ROWS, Blocks, yield_delayed
from snm.prediction.programs import jitted_queries
from snm.tables.rounding import as_float, round_to_nearest
from snm.tables.table import RowTable, normalize
from snm.trainer.start.prepare import Prepared
from snm.trainer.steps.loop import prefetch_stacks
from snm.trainer.steps.programs import jitted_steps

__all__ = ["start_at_centroids"]

_RANDOM_ROW_LENGTH = 1e-3  # of the random rows: negligible beside one query, of length 1

_MAX_VALUES_ON_HOST = 1 << 25
"""Elements of the class rows, 128 MiB of float32, up to which the host sums the queries."""
_MAX_QUERY_VALUES = 1 << 27
"""Elements of the queries up to which the host sums them."""

_COMPILE_LOCK = threading.Lock()
"""Held while the first block is embedded, so that members that start together compile once."""


def start_at_centroids(prepared: Prepared, state: TrainState) -> TrainState:
    """Replaces class rows by the directions of the mean queries of the labels' training points.

    The model then starts as a nearest-centroid classifier (Rocchio, 1971). Means are weighted by
    the weights of the points. A label without points keeps its random row.

    With a small table and few points, the host sums the queries. They come from the jitted program
    of prediction, which validation and the memory need anyway; a program for centroids alone takes
    longer to compile than to run. Otherwise, and on a mesh, a jitted step sums on the devices.

    Args:
      prepared: the training; its points are visited once.
      state: initial parameters, consumed.
    """
    large = state.head.table.rows.size > _MAX_VALUES_ON_HOST
    many = prepared.source.num_points * prepared.model.dim > _MAX_QUERY_VALUES
    on_devices = large or many or prepared.mesh is not None
    return (_sum_on_devices if on_devices else _sum_on_host)(prepared, state)


def _sum_on_host(prepared: Prepared, state: TrainState) -> TrainState:
    """`start_at_centroids` with sums on the host, one block of points at a time."""
    table = state.head.table
    rows = np.array(as_float(table.rows), np.float32)
    rows *= _RANDOM_ROW_LENGTH * np.exp(np.asarray(state.head.log_scale))
    for queries, labels in _embed_blocks(prepared.model, state, prepared.source):
        finite = np.isfinite(queries).all(axis=1)
        _add_to_rows(rows, queries[finite], labels[finite])
    lengths = np.sqrt(np.einsum("kd,kd->k", rows, rows))
    rows /= np.maximum(lengths, np.finfo(np.float32).tiny)[:, None]
    return _with_class_rows(state, round_to_nearest(jax.device_put(rows), table.rows.dtype))


def _embed_blocks(
    model: Model, state: TrainState, source: Source
) -> Iterator[tuple[NDArray[np.float32], csr_matrix]]:
    """Queries [m, dim], times the score multiplier, and labels [m, K], of each block of points."""

    def started_blocks() -> Iterator[tuple[jax.Array, csr_matrix]]:
        embed, first = jitted_queries(model, None), 0
        # The features of a source are weighted already.
        for count, block in Blocks(Weighting("none"), ROWS, entries=8).split(source.features):
            yield embed(state, block), source.labels[first : first + count]
            first += count

    blocks = started_blocks()
    with _COMPILE_LOCK:
        first_block = list(itertools.islice(blocks, 1))
    for queries, labels in yield_delayed(itertools.chain(first_block, blocks)):
        yield np.asarray(queries)[: labels.shape[0]], labels


def _add_to_rows(
    rows: NDArray[np.float32], queries: NDArray[np.float32], labels: csr_matrix
) -> None:
    """Adds queries [m, dim], weighted by labels CSR [m, K], to the rows [K, dim] of the labels."""
    label_ids, slots = np.unique(labels.indices, return_inverse=True)
    shape = labels.shape[0], len(label_ids)
    rows[label_ids] += csr_matrix((labels.data, slots, labels.indptr), shape).T @ queries


def _sum_on_devices(prepared: Prepared, state: TrainState) -> TrainState:
    """`start_at_centroids` with sums on the devices, by steps that update the rows in place."""
    source, mesh = prepared.source.for_centroids(), prepared.mesh
    resident = spread_points(source.resident_arrays(), mesh)
    # A single pass: compilation takes most of its time.
    shape = source.shape(0)
    program = jitted_steps(prepared.model, source, shape, mesh, centroid_step, answer_options)
    state = _map_class_rows(state, _shorten)
    steps = prepared.steps_per_dispatch
    dispatches = split_into_dispatches(source, 0, source.steps_per_epoch, steps)
    for _, _, stack in prefetch_stacks(lambda _: source, dispatches, mesh, steps):
        state, _ = program(state, resident, stack)
    return _map_class_rows(state, _normalize_rows)


def _map_class_rows(state: TrainState, function: Callable[[jax.Array], jax.Array]) -> TrainState:
    """Applies a function to the class rows, in place."""
    jitted = jax.jit(function, donate_argnums=0, compiler_options=answer_options())
    return _with_class_rows(state, jitted(state.head.table.rows))


def _with_class_rows(state: TrainState, rows: jax.Array) -> TrainState:
    table = RowTable(rows, state.head.table.accumulator)
    return dataclasses.replace(state, head=dataclasses.replace(state.head, table=table))


def _shorten(rows: jax.Array) -> jax.Array:
    return round_to_nearest(as_float(rows) * _RANDOM_ROW_LENGTH, rows.dtype)


def _normalize_rows(rows: jax.Array) -> jax.Array:
    return round_to_nearest(normalize(as_float(rows)), rows.dtype)
