"""The initial parameters of a phase: new ones, or those of another run."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from snm.data.id_space import TRAIN_ANEW, IdSpace, check_features, match_labels
from snm.distributed.processes import has_several_processes
from snm.errors import InputError
from snm.model.model import Model, TrainState, abstract_state
from snm.model.placement import gather_to_host, init_state_on, shard_state
from snm.runs.stored_run import StoredRun
from snm.tables.rounding import as_float, round_to_nearest
from snm.tables.table import RowTable
from snm.text import counted
from snm.trainer.start.centroids import start_at_centroids
from snm.trainer.start.prepare import Prepared

__all__ = ["WarmStart", "starting_state"]


@dataclasses.dataclass(frozen=True, eq=False)
class WarmStart:
    """A run that another one starts from.

    Attributes:
      run: its folder.
      ids: the feature and label ids of the new run's data.
      same_ids: labels without names are the same labels in both, if there are as many.
    """

    run: Path
    ids: IdSpace
    same_ids: bool = False

    @functools.cached_property
    def stored(self) -> StoredRun:
        """The other run, opened when it is first needed: a resumed run does not need it.

        Raises:
          InputError: no run.
        """
        return StoredRun.open(self.run)

    @functools.cached_property
    def slots(self) -> NDArray[np.int64] | None:
        """For each label of the data its id in the other run, int64 [K]; None if all are equal.

        Raises:
          InputError: no run; other features; labels that the run lacks, or that cannot be compared.
        """
        ids, run_ids = self.ids, self.stored.ids()
        check_features(ids, run_ids)
        slots = match_labels(ids, run_ids, same_ids=self.same_ids)
        if slots is not None and (missing := np.flatnonzero(slots < 0)).size:
            assert ids.label_names is not None
            name = ids.label_names[missing[0]]
            found = (
                f"{counted(len(missing), 'label')} of {ids.name} that it lacks, such as {name!r}"
            )
            grow = f"snm grow {shlex.quote(str(self.run))} --data DATA"
            expected = f"a run with these labels (`{grow}` adds them)"
            if self.stored.config.seen == "drop":  # which `snm grow` refuses
                expected = f"data without them; {TRAIN_ANEW}"
            raise InputError(f"--warm-start {self.run}", found, expected)
        return slots

    @property
    def note(self) -> str | None:
        """A note for the user if labels were mapped by name, else None."""
        if self.slots is None:
            return None
        return f"labels of {self.run} were mapped by name to those of {self.ids.name}"


def starting_state(prepared: Prepared, warm_start: WarmStart | None) -> TrainState:
    """The parameters that a member starts from: new ones, or those of the same member of a run.

    Of new ones, the class rows are random or the centroids of the labels. The optimizer state is
    new in any case.

    Args:
      prepared: the training of the member.
      warm_start: another run; None for new parameters.

    Raises:
      InputError: the folder is not a run, or its parameters have other shapes, or its features
        another weighting.
    """
    model, mesh = prepared.model, prepared.mesh
    if warm_start is None:
        state = init_state_on(model, mesh, seed=prepared.seed)
        return (
            state if prepared.config.class_init == "random" else start_at_centroids(prepared, state)
        )
    # The parameters are sharded while they are read, since a process may lack memory for all of
    # them. To reorder rows, however, each of several processes needs all rows.
    slots = warm_start.slots
    reads_all_rows = slots is not None and has_several_processes()
    stored = warm_start.stored
    other, old = stored.model, stored.member(prepared.member, None if reads_all_rows else mesh)
    if slots is not None:
        other, old = _reorder_labels(other, old, slots)
        old = jax.tree.map(jnp.asarray, old) if mesh is None else shard_state(old, mesh)
    shapes = [jax.tree.map(np.shape, (s.features.rows, s.tower, s.head.table.rows, s.head.bias))
              for s in map(abstract_state, (other, model))]  # fmt: skip
    if shapes[0] != shapes[1] or other.encoder != model.encoder:  # two have the same shapes
        settings = stored.folder.config
        expected = f"{_describe(model)} (`--config {settings}` takes its settings)"
        raise InputError(f"--warm-start {warm_start.run}", _describe(other), expected)
    old_weighting, weighting = stored.config.weighting, prepared.config.weighting
    if old_weighting != weighting:
        expected = f"{weighting}, as here; or train with --weighting {old_weighting}"
        found = f"a run with weighting {old_weighting}"
        raise InputError(f"--warm-start {warm_start.run}", found, expected)
    # Without rows: the device may lack memory for two sets.
    new = init_state_on(model, mesh, seed=prepared.seed, rows=False)
    dtype = abstract_state(model).features.rows.dtype
    # A learned score multiplier is a parameter of the other run, a fixed one a setting of this run.
    log_scale = old.head.log_scale if model.spec.learn_scale else new.head.log_scale
    return dataclasses.replace(
        new,
        features=_replace_rows(new.features, old.features, dtype),
        tower=old.tower,
        head=dataclasses.replace(
            new.head,
            table=_replace_rows(new.head.table, old.head.table, dtype),
            bias=old.head.bias,
            log_scale=log_scale,
        ),
    )


def _reorder_labels(
    model: Model, state: TrainState, slots: NDArray[np.int64]
) -> tuple[Model, TrainState]:
    """Reorders the labels of a model; the state comes back on the host without padding rows."""
    state = gather_to_host(state, model)
    head = state.head
    rows = dataclasses.replace(head.table, rows=head.table.rows[slots], accumulator=None)
    bias = None if head.bias is None else head.bias[slots]
    max_sampled = len(slots) - 1  # there may be fewer labels than the other run sampled
    sampled, mined = min(model.spec.sampled, max_sampled), min(model.spec.mined, max_sampled)
    spec = dataclasses.replace(model.spec, num_labels=len(slots), sampled=sampled, mined=mined)
    state = dataclasses.replace(state, head=dataclasses.replace(head, table=rows, bias=bias))
    return dataclasses.replace(model, spec=spec), state


def _replace_rows(new: RowTable, old: RowTable, dtype: np.dtype) -> RowTable:
    """The rows of `old` in this dtype, with the optimizer state of `new`."""
    rows = old.rows
    if rows.dtype != dtype:
        rows = round_to_nearest(as_float(rows), dtype)
    return dataclasses.replace(new, rows=rows)


def _describe(model: Model) -> str:
    bias = "with" if model.spec.bias else "without"
    return (
        f"{model.num_features} features, {model.spec.num_labels} labels, dim {model.dim}, "
        f"encoder {model.encoder}, {bias} bias"
    )
