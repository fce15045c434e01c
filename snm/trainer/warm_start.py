"""The parameters that a phase starts from: new ones, or those of another run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import numpy as np

from snm.errors import InputError
from snm.model.model import Model, TrainState, abstract_state, init_state
from snm.model.placement import initial
from snm.runs.load import load_member
from snm.tables.rounding import as_float, to_nearest
from snm.tables.table import RowTable
from snm.trainer.centroids import centroids
from snm.trainer.prepare import Prepared

__all__ = []


def initial_state(
    prepared: Prepared, warm_start: str | Path | None = None, member: int = 1
) -> TrainState:
    """Initial parameters of a member; with `warm_start`, those of another run's member.

    The optimiser state is new in either case.

    Raises:
      InputError: the other run has parameters of other shapes, or it is no run.
    """
    model, mesh = prepared.model, prepared.mesh
    if warm_start is None:
        if mesh is None:
            # The seed is data, so that members share the program.
            seed = np.uint32(model.seed % 2**32)
            state = jax.jit(init_state, static_argnums=0)(dataclasses.replace(model, seed=0), seed)
        else:
            state = initial(model, mesh)
        return state if prepared.config.class_init == "random" else centroids(prepared, state)
    # Sharded as it is read: a process may have no room for all of it.
    other, old = load_member(warm_start, member, mesh)
    shapes = [jax.tree.map(np.shape, (s.features.rows, s.tower, s.head.table.rows, s.head.bias))
              for s in map(abstract_state, (other, model))]  # fmt: skip
    if shapes[0] != shapes[1]:
        raise InputError(f"--warm-start {warm_start}", _described(other), _described(model))
    fresh = init_state(model) if mesh is None else initial(model, mesh)
    # A fixed multiplier is a setting of this run, a learned one a parameter of the other.
    learned = model.head.learn_scale
    return dataclasses.replace(
        fresh,
        features=_with_rows(fresh.features, old.features),
        tower=old.tower,
        head=dataclasses.replace(
            fresh.head,
            table=_with_rows(fresh.head.table, old.head.table),
            bias=old.head.bias,
            log_scale=old.head.log_scale if learned else fresh.head.log_scale,
        ),
    )


def _with_rows(fresh: RowTable, old: RowTable) -> RowTable:
    """The rows of `old` in the dtype of `fresh`, with the optimiser state of `fresh`."""
    rows = old.rows
    if rows.dtype != fresh.rows.dtype:
        rows = to_nearest(as_float(rows), fresh.rows.dtype)
    return dataclasses.replace(fresh, rows=rows)


def _described(model: Model) -> str:
    bias = "with" if model.head.bias else "without"
    return (
        f"{model.num_features} features, {model.head.num_labels} labels, dim {model.dim}, "
        f"encoder {model.encoder}, {bias} bias"
    )
