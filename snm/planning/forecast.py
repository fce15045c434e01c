"""Predicts the memory of a run from counted and compiled sizes, by part and stage.

No tables are allocated. The programs are compiled for shapes alone,
and the compiler reports the temporary memory of each. The bytes of Python, the libraries and the
data are those of this process.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import make_block
from snm.batches.device_parts import spread_stack
from snm.batches.sources.source import Source
from snm.checkpoints.writer import has_memory_for_copy
from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.data.mapped import is_mapped
from snm.distributed.host_copy import state_bytes
from snm.distributed.mesh import DATA
from snm.machine.ram import resident_ram
from snm.model.from_config import make_model
from snm.model.inference import join_members
from snm.model.model import Model, TrainState, abstract_state
from snm.model.placement import abstract_state_on, jitted_init, sharded_shapes
from snm.planning.bytes_by_stage import Forecast, RunSizes, bytes_by_stage
from snm.planning.programs import Programs, StageProgram
from snm.prediction.point_blocks import ROWS
from snm.prediction.programs import jitted_queries, jitted_top
from snm.trainer.phase import prepare_first_phase
from snm.trainer.start.prepare import Prepared, members_at_once
from snm.trainer.start.training_points import label_name_points
from snm.trainer.steps.programs import jitted_steps

__all__ = ["MemoryBytes", "count_parameters", "forecast", "memory_bytes"]


def forecast(dataset: Dataset, config: ResolvedConfig) -> tuple[Forecast, Programs]:
    """Predicts the bytes of a run.

    Args:
      dataset: loaded.
      config: the settings.

    Raises:
      InputError: settings that training would reject: an invalid mesh, or a part without labels.
    """
    before = resident_ram()
    phase, prepared = prepare_first_phase(config, dataset)
    mesh, source, model = prepared.mesh, prepared.source, prepared.model
    whole = abstract_state(model)
    shapes = abstract_state_on(mesh, model)
    start = _temporary_bytes(jitted_init(model, mesh).lower(np.uint32(0)))
    programs, stack = _compiled_steps(prepared, shapes)
    scores = _scoring_bytes(model, source, whole, config.members, mesh)
    shard = whole if mesh is None else jax.tree.map(_shard_shape, shapes)  # of one device
    optimizer = _optimizer_bytes(shard)
    read = _bytes_read(dataset)
    validates = phase.held_out is not None  # then each best state is saved
    memory = memory_bytes(config, dataset)
    sizes = RunSizes(
        tables=state_bytes(shard) - optimizer,
        optimizer=optimizer,
        dataset=read,
        weighted_data=_bytes_weighted(source, dataset),
        libraries=max(before - read, 0),
        batch_stack=stack,
        init_temporaries=start,
        step_temporaries=max(
            int(stage.step.memory_analysis().temp_size_in_bytes) for stage in programs.stages
        ),
        scoring_temporaries=scores,
        device_data=state_bytes(source.resident_shapes()) // source.data_parts,
        background_checkpoints=(validates or prepared.saves.first < prepared.total_steps)
        and has_memory_for_copy(shapes),
        validates=validates,
        members=config.members,
        parallel_members=members_at_once(config, mesh),
        devices=1 if mesh is None else len(mesh.local_devices),
        unsharded_state=state_bytes(whole),
        memory=memory.stored + memory.by_feature,
        memory_queries=memory.queries,
    )
    host, device = bytes_by_stage(sizes, jax.default_backend() == "cpu")
    return Forecast(host, device, sizes, source.steps_per_epoch), programs


# -- compiled ----------------------------------------------------------------------------------


def _compiled_steps(prepared: Prepared, shapes: TrainState) -> tuple[Programs, int]:
    """The step of each stage, and the bytes of the largest batches of a dispatch.

    Args:
      prepared: the training.
      shapes: the shapes of a member's state, on the mesh if there is one.
    """
    mesh, source = prepared.mesh, prepared.source
    count = min(prepared.steps_per_dispatch, source.steps_per_epoch)
    resident = source.resident_shapes()
    begun = time.perf_counter()
    stages, sizes = [], []
    for stage in prepared.stages:
        stack = spread_stack(stage.source.stack(0, count), mesh)
        steps = jitted_steps(
            stage.model, stage.source, source.shape(0), mesh, options=prepared.step_options
        )
        stages.append(StageProgram(stage, steps.lower(shapes, resident, stack).compile()))
        sizes.append(sum(_device_bytes(leaf) for leaf in jax.tree.leaves(stack)))
    compile_seconds = time.perf_counter() - begun
    return Programs(stages, count, compile_seconds, mesh), max(sizes)


def _scoring_bytes(
    model: Model, source: Source, state: Any, members: int, mesh: Mesh | None
) -> int:
    """Temporary bytes of scoring a block of points with all members."""
    together = jax.eval_shape(lambda member: join_members([member] * members), state)
    if mesh is not None:
        together = sharded_shapes(together, mesh)
    parts = 1 if mesh is None else mesh.shape[DATA]
    rows = min(-(-ROWS // parts), source.features.shape[0])
    block = make_block(source.features, np.arange(rows))
    if parts > 1:
        block = jax.tree.map(lambda x: jax.ShapeDtypeStruct((parts, *x.shape), x.dtype), block)
    joined = dataclasses.replace(model, members=members)
    best = jitted_top(joined, min(5, model.spec.num_labels), mesh)
    if mesh is not None:
        return _temporary_bytes(best.lower(together, block))
    # One program makes the queries, and another one searches with them.
    embed = jitted_queries(joined, None)
    queries = jax.eval_shape(embed, together, block)
    programs = embed.lower(together, block), best.lower(together, block, queries)
    return state_bytes(queries) + max(map(_temporary_bytes, programs))


def _temporary_bytes(lowered: Any) -> int:
    """Bytes that a program allocates besides its arguments and results."""
    return int(lowered.compile().memory_analysis().temp_size_in_bytes)


# -- counted -----------------------------------------------------------------------------------


def count_parameters(config: ResolvedConfig, dataset: Dataset) -> tuple[int, int]:
    """The number of parameters of all members, and their bytes without those of optimizers."""
    train = dataset.train
    state = abstract_state(make_model(config, train.num_features, train.num_labels))
    count = _num_elements(state) - _num_elements(_optimizer_state(state))
    size = state_bytes(state) - _optimizer_bytes(state)
    return config.members * count, config.members * size


def _num_elements(state: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(state))


def _optimizer_state(state: TrainState) -> Any:
    accumulators = state.features.accumulator, state.head.table.accumulator
    return accumulators, state.tower_state


def _optimizer_bytes(state: TrainState) -> int:
    """Bytes of the state of the optimizers."""
    return state_bytes(_optimizer_state(state))


def _bytes_read(dataset: Dataset) -> int:
    """Bytes of the data on the host, as the files have them."""
    parts = [dataset.train, *([dataset.test] if dataset.test is not None else [])]
    return sum(_csr_bytes(matrix) for part in parts for matrix in (part.features, part.labels))


def _bytes_weighted(source: Source, dataset: Dataset) -> int:
    """Bytes of the weighted training data, without arrays shared with the data set."""
    features = _csr_bytes(source.features, shared_with=dataset.train.features)
    # The labels are a copy if there are names or splits.
    return features + _csr_bytes(source.labels, shared_with=dataset.train.labels)


class MemoryBytes(NamedTuple):
    """An upper bound of the bytes of a memory of all training points.

    Attributes:
      stored: of its arrays, in its file and on the host.
      queries: of the queries; part of `stored`.
      by_feature: of the points by feature, which an open memory has beside them.
    """

    stored: int
    queries: int
    by_feature: int


def memory_bytes(config: ResolvedConfig, dataset: Dataset) -> MemoryBytes:
    """The bytes of a memory, before it is known what it keeps; all 0 if none is tried."""
    if config.memory != "on":
        return MemoryBytes(0, 0, 0)
    train, names = dataset.train, label_name_points(config, dataset)
    points, features, labels = train.num_points, train.features.nnz, train.labels.nnz
    if config.seen == "drop":  # all items of a point are its features and its labels
        features = labels = features + labels
    if names is not None:
        points += names.num_points
        features += names.features.nnz
        labels += names.labels.nnz
    if config.weighting == "standard":
        features = points * train.num_features
    # A value and an index of 4 bytes per entry, and the row starts of a matrix; per point, a row
    # number of 8 bytes, a float16 query, and a weight if points have weights.
    starts = train.features.indptr.itemsize * (points + 1)
    queries = 2 * config.members * config.dim * points
    weights = 0 if train.weights is None else 4 * points
    stored = 8 * (features + labels) + 2 * starts + 8 * points + queries + weights
    return MemoryBytes(stored, queries, 8 * features + starts)


def _csr_bytes(matrix: csr_matrix, shared_with: csr_matrix | None = None) -> int:
    """Bytes of a matrix, without arrays shared with another one and without mapped files."""
    others: tuple = ()
    if shared_with is not None:
        others = (shared_with.data, shared_with.indices, shared_with.indptr)
    return sum(
        part.nbytes
        for part in (matrix.data, matrix.indices, matrix.indptr)
        if not is_mapped(part) and not any(np.may_share_memory(part, other) for other in others)
    )


def _shard_shape(leaf: Any) -> jax.ShapeDtypeStruct:
    """The shard of an array that one device holds."""
    return jax.ShapeDtypeStruct(leaf.sharding.shard_shape(leaf.shape), leaf.dtype)


def _device_bytes(leaf: Any) -> int:
    return state_bytes(_shard_shape(leaf)) if isinstance(leaf, jax.Array) else leaf.nbytes
