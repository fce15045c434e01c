"""Class rows to start from: the centroids of the labels' training points."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

from snm.batches.device_parts import spread_points
from snm.model.model import TrainState
from snm.model.train_step import centroid_step
from snm.machine.compiler import answer_options
from snm.tables.rounding import as_float, to_nearest
from snm.tables.table import RowTable, normalize
from snm.trainer.loop import ahead, dispatches
from snm.trainer.prepare import Prepared
from snm.trainer.programs import compiled_steps

__all__ = ["centroids"]

_SHORT = 1e-3  # length of a random row that gives way to a single query, of length 1


def centroids(prepared: Prepared, state: TrainState) -> TrainState:
    """Replaces class rows by the directions of the mean queries of the labels' training points.

    Class rows then start as the classifier of nearest centroids (Rocchio, 1971). Points count by
    their weights. A label without points keeps its random row.

    Args:
      prepared: the training, whose points are visited once.
      state: new parameters, consumed.
    """
    source, mesh = prepared.source.for_centroids(), prepared.mesh
    resident = source.resident_arrays()
    if mesh is not None:
        resident = spread_points(resident, source.data_parts, mesh)
    # The seed plays no part: all members share the program.
    model = dataclasses.replace(prepared.model, seed=0)
    compiled: dict[Any, Any] = {}
    state = _with_class_rows(state, _shortened)
    steps = prepared.steps_per_dispatch
    plan = list(dispatches(source, 0, source.steps_per_epoch, steps, [], []))
    for first, _, stack in ahead(lambda _: source, plan, mesh, steps):
        shape = source.shape_of_step(first)
        if shape not in compiled:
            # A pass is one visit to the points: compiling is most of it.
            compiled[shape] = compiled_steps(
                model, source, shape, mesh, centroid_step, answer_options
            )
        state, _ = compiled[shape](state, resident, stack)
    return _with_class_rows(state, _of_unit_length)


def _with_class_rows(state: TrainState, change: Callable[[jax.Array], jax.Array]) -> TrainState:
    """The state with its class rows changed, in place."""
    compiled = jax.jit(change, donate_argnums=0, compiler_options=answer_options())
    table = RowTable(compiled(state.head.table.rows), state.head.table.accumulator)
    return dataclasses.replace(state, head=dataclasses.replace(state.head, table=table))


def _shortened(rows: jax.Array) -> jax.Array:
    return to_nearest(as_float(rows) * _SHORT, rows.dtype)


def _of_unit_length(rows: jax.Array) -> jax.Array:
    return to_nearest(normalize(as_float(rows)), rows.dtype)
