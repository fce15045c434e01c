"""The parameters that a phase starts from: new ones, or those of another run."""

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
from snm.errors import InputError, counted
from snm.model.model import Model, TrainState, abstract_state
from snm.model.placement import gather_to_host, init_state_on, shard_state
from snm.runs.load import StoredRun
from snm.tables.rounding import as_float, round_to_nearest
from snm.tables.table import RowTable
from snm.trainer.centroids import centroids
from snm.trainer.prepare import Prepared

__all__ = ["WarmStart", "initial_state"]


@dataclasses.dataclass(frozen=True, eq=False)
class WarmStart:
    """A run that another one starts from.

    Attributes:
      run: its folder.
      ids: what the ids of the data mean that the new run trains on.
      same_ids: labels without names mean the same where there are as many.
    """

    run: Path
    ids: IdSpace
    same_ids: bool = False

    @functools.cached_property
    def stored(self) -> StoredRun:
        """The run as its folder has it.

        It is looked up when parameters are needed: a run that goes on needs no other.

        Raises:
          InputError: no run.
        """
        return StoredRun.open(self.run)

    @functools.cached_property
    def slots(self) -> NDArray[np.int64] | None:
        """For each label of the data its id in the run, int64 [K]; None if all are equal.

        As `stored`, it is looked up when parameters are needed.

        Raises:
          InputError: no run; other features; labels that the run lacks, or that cannot be compared.
        """
        here, there = self.ids, self.stored.ids()
        check_features(here, there)
        slots = match_labels(here, there, same_ids=self.same_ids)
        if slots is not None and (lacking := np.flatnonzero(slots < 0)).size:
            assert here.label_names is not None
            name = here.label_names[lacking[0]]
            found = (
                f"{counted(len(lacking), 'label')} of {here.name} that it lacks, such as {name!r}"
            )
            grow = f"snm grow {shlex.quote(str(self.run))} --data DATA"
            expected = f"a run with these labels (`{grow}` adds them)"
            if self.stored.config.seen == "drop":  # which `snm grow` refuses
                expected = f"data without them; {TRAIN_ANEW}"
            raise InputError(f"--warm-start {self.run}", found, expected)
        return slots

    @property
    def note(self) -> str | None:
        """A line that tells that labels were mapped, or None."""
        if self.slots is None:
            return None
        return f"labels of {self.run} were mapped by name to those of {self.ids.name}"


def initial_state(
    prepared: Prepared, warm_start: WarmStart | None = None, member: int = 1
) -> TrainState:
    """Initial parameters of a member; with `warm_start`, those of another run's member.

    The optimiser state is new in either case.

    Raises:
      InputError: the other run has parameters of other shapes, or of features that are weighted
        otherwise; or it is no run.
    """
    model, mesh = prepared.model, prepared.mesh
    if warm_start is None:
        state = init_state_on(model, mesh, seed=prepared.config.seed)
        return state if prepared.config.class_init == "random" else centroids(prepared, state)
    # Sharded as it is read: a process may have no room for all of it. To reorder rows, each of
    # several processes needs them all.
    slots = warm_start.slots
    whole = slots is not None and has_several_processes()
    other, old = warm_start.stored.member(member, None if whole else mesh)
    if slots is not None:
        other, old = _reordered(other, old, slots)
        old = jax.tree.map(jnp.asarray, old) if mesh is None else shard_state(old, mesh)
    shapes = [jax.tree.map(np.shape, (s.features.rows, s.tower, s.head.table.rows, s.head.bias))
              for s in map(abstract_state, (other, model))]  # fmt: skip
    if shapes[0] != shapes[1] or other.encoder != model.encoder:  # two have the same shapes
        settings = warm_start.run / "config.toml"
        expected = f"{_described(model)} (`--config {settings}` takes its settings)"
        raise InputError(f"--warm-start {warm_start.run}", _described(other), expected)
    theirs, mine = warm_start.stored.config.weighting, prepared.config.weighting
    if theirs != mine:
        expected = f"{mine}, as here; or train with --weighting {theirs}"
        raise InputError(
            f"--warm-start {warm_start.run}", f"a run with weighting {theirs}", expected
        )
    # Without rows: the device may have no room for two sets.
    fresh = init_state_on(model, mesh, seed=prepared.config.seed, rows=False)
    dtype = abstract_state(model).features.rows.dtype
    # A fixed multiplier is a setting of this run, a learned one a parameter of the other.
    learned = model.spec.learn_scale
    return dataclasses.replace(
        fresh,
        features=_with_rows(fresh.features, old.features, dtype),
        tower=old.tower,
        head=dataclasses.replace(
            fresh.head,
            table=_with_rows(fresh.head.table, old.head.table, dtype),
            bias=old.head.bias,
            log_scale=old.head.log_scale if learned else fresh.head.log_scale,
        ),
    )


def _reordered(
    model: Model, state: TrainState, slots: NDArray[np.int64]
) -> tuple[Model, TrainState]:
    """A model with labels in another order, and its state on the host, without padding rows."""
    state = gather_to_host(state, model)
    head = state.head
    rows = dataclasses.replace(head.table, rows=head.table.rows[slots], accumulator=None)
    bias = None if head.bias is None else head.bias[slots]
    most = len(slots) - 1  # the labels here may be fewer than the other run sampled
    sampled, mined = min(model.spec.sampled, most), min(model.spec.mined, most)
    spec = dataclasses.replace(model.spec, num_labels=len(slots), sampled=sampled, mined=mined)
    state = dataclasses.replace(state, head=dataclasses.replace(head, table=rows, bias=bias))
    return dataclasses.replace(model, spec=spec), state


def _with_rows(fresh: RowTable, old: RowTable, dtype: np.dtype) -> RowTable:
    """The rows of `old` in this dtype, with the optimiser state of `fresh`."""
    rows = old.rows
    if rows.dtype != dtype:
        rows = round_to_nearest(as_float(rows), dtype)
    return dataclasses.replace(fresh, rows=rows)


def _described(model: Model) -> str:
    bias = "with" if model.spec.bias else "without"
    return (
        f"{model.num_features} features, {model.spec.num_labels} labels, dim {model.dim}, "
        f"encoder {model.encoder}, {bias} bias"
    )
