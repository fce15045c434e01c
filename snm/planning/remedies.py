"""Changes of settings that make a run fit into memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from snm.config.resolved import ResolvedConfig
from snm.distributed.mesh import DATA, LABEL, feature_axis, parse_mesh
from snm.model.model import Model
from snm.planning.bytes_by_stage import Forecast, RunSizes, bytes_by_stage
from snm.tables.optimizers import ROW_OPTIMIZERS
from snm.trainer.start.prepare import dim_multiple

__all__ = ["find_remedies"]


def find_remedies(
    expected: Forecast,
    config: ResolvedConfig,
    model: Model,
    limit: int,
    *,
    on_cpu: bool,
    shared_memory: bool,
) -> Iterator[tuple[str, int]]:
    """Single changes of settings with which a run fits, the least costly first.

    Args:
      expected: the forecast of the run without changes.
      config: the settings of the run.
      model: the model of one member.
      limit: bytes of the device.
      on_cpu: whether a CPU trains, or simulates the devices that train.
      shared_memory: whether simulated devices share the limit, which is this machine's memory.

    Yields:
      The flags, and the bytes at the peak with them. Activations are scaled in proportion.
    """
    for flags, changed in _changes(expected.sizes, config, model):
        host, device = bytes_by_stage(changed, on_cpu)
        forecast = Forecast(host, device, changed, expected.steps_per_epoch)
        peak = forecast.peak_host if shared_memory else forecast.peak_device
        if peak <= limit:
            yield flags, peak


def _changes(
    sizes: RunSizes, config: ResolvedConfig, model: Model
) -> Iterator[tuple[str, RunSizes]]:
    data, label = parse_mesh(config.mesh)
    for fewer in range(sizes.parallel_members - 1, 0, -1):
        yield f"--members-at-once {fewer}", dataclasses.replace(sizes, parallel_members=fewer)
    if sizes.device_data:
        yield "--data-on host", dataclasses.replace(sizes, device_data=0)
    if ROW_OPTIMIZERS[config.row_optimizer].has_accumulator:
        feature_shards = {DATA: data, LABEL: label}[feature_axis(data, label)]
        rows = 4 * (-(-model.num_features // feature_shards) + -(-model.spec.num_labels // label))
        reduced = dataclasses.replace(
            sizes,
            optimizer=max(sizes.optimizer - rows, 0),
            unsharded_state=max(
                sizes.unsharded_state - 4 * (model.num_features + model.spec.num_labels), 0
            ),
        )
        yield "--row-optimizer sgd", reduced
    if sizes.memory:
        yield "--memory off", dataclasses.replace(sizes, memory=0, memory_queries=0)
    for members in range(sizes.members - 1, 0, -1):
        reduced = dataclasses.replace(
            sizes, members=members, parallel_members=min(sizes.parallel_members, members)
        )
        yield f"--members {members}", _scale_queries(reduced, members / sizes.members)
    for batch in (config.batch_size // 2, config.batch_size // 4, config.batch_size // 8):
        if batch and batch % data == 0:
            share = batch / config.batch_size
            reduced = dataclasses.replace(
                sizes,
                step_temporaries=round(sizes.step_temporaries * share),
                batch_stack=round(sizes.batch_stack * share),
            )
            yield f"--batch-size {batch}", reduced
    for dim in _smaller(model.dim):
        share = dim / model.dim
        scaled = {
            name: round(getattr(sizes, name) * share)
            for name in (
                "tables",
                "optimizer",
                "unsharded_state",
                "init_temporaries",
                "step_temporaries",
                "scoring_temporaries",
            )
        }
        yield f"--dim {dim}", _scale_queries(dataclasses.replace(sizes, **scaled), share)


def _scale_queries(sizes: RunSizes, share: float) -> RunSizes:
    """Scales the bytes of the queries of a memory by a share."""
    queries = round(sizes.memory_queries * share)
    memory = sizes.memory - sizes.memory_queries + queries
    return dataclasses.replace(sizes, memory=memory, memory_queries=queries)


def _smaller(dim: int) -> Iterator[int]:
    """Yields smaller dimensions that training accepts, largest first: multiples of 32, then of 8.

    From 4096 on the distances are larger, at most a 64th of the dimension, so that there are few.
    """
    unit, rest = dim_multiple(), dim - 1
    while rest >= 8:
        step = 32 << max(rest.bit_length() - 12, 0) if rest >= 32 else 8
        smaller = rest // step * step
        if smaller % unit == 0:
            yield smaller
        rest = smaller - 1
