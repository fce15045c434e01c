"""Changes of settings that make a run fit into memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from snm.config.resolved import ResolvedConfig
from snm.distributed.mesh import DATA, LABEL, feature_axis, parse_mesh
from snm.model.model import Model
from snm.planning.bytes_by_stage import Forecast, Needs, bytes_by_stage
from snm.tables.optimizers import ROW_OPTIMIZERS
from snm.trainer.prepare import dim_multiple

__all__ = ["ways_to_fit"]


def ways_to_fit(
    expected: Forecast,
    config: ResolvedConfig,
    model: Model,
    limit: int,
    *,
    on_cpu: bool = True,
    together: bool = False,
) -> Iterator[tuple[str, int]]:
    """Single changes of settings with which a run fits, the least costly first.

    Args:
      expected: the forecast of the run without changes.
      config: the settings of the run.
      model: the model of one member.
      limit: bytes of the device.
      on_cpu: whether a CPU trains, or simulates the devices that train.
      together: whether simulated devices share the limit, which is this machine's memory.

    Yields:
      The flags, and the bytes at the peak with them. Activations are scaled in proportion.
    """
    for flags, changed in _changes(expected.needs, config, model):
        host, device = bytes_by_stage(changed, on_cpu)
        forecast = Forecast(host, device, changed, expected.steps_per_epoch)
        peak = forecast.peak_host if together else forecast.peak_device
        if peak <= limit:
            yield flags, peak


def _changes(needs: Needs, config: ResolvedConfig, model: Model) -> Iterator[tuple[str, Needs]]:
    data, label = parse_mesh(config.mesh)
    for fewer in range(needs.at_once - 1, 0, -1):
        yield f"--members-at-once {fewer}", dataclasses.replace(needs, at_once=fewer)
    if needs.resident:
        yield "--data-on host", dataclasses.replace(needs, resident=0)
    if ROW_OPTIMIZERS[config.row_optimizer].has_accumulator:
        feature_shards = {DATA: data, LABEL: label}[feature_axis(data, label)]
        rows = 4 * (-(-model.num_features // feature_shards) + -(-model.spec.num_labels // label))
        reduced = dataclasses.replace(
            needs,
            optimiser=max(needs.optimiser - rows, 0),
            whole=max(needs.whole - 4 * (model.num_features + model.spec.num_labels), 0),
        )
        yield "--row-optimizer sgd", reduced
    if needs.neighbours:
        yield "--memory off", dataclasses.replace(needs, neighbours=0, queries=0)
    for members in range(needs.members - 1, 0, -1):
        reduced = dataclasses.replace(needs, members=members, at_once=min(needs.at_once, members))
        yield f"--members {members}", _scale_queries(reduced, members / needs.members)
    for batch in (config.batch_size // 2, config.batch_size // 4, config.batch_size // 8):
        if batch and batch % data == 0:
            share = batch / config.batch_size
            reduced = dataclasses.replace(
                needs, step=round(needs.step * share), stack=round(needs.stack * share)
            )
            yield f"--batch-size {batch}", reduced
    for dim in _smaller(model.dim):
        share = dim / model.dim
        scaled = {
            name: round(getattr(needs, name) * share)
            for name in ("tables", "optimiser", "whole", "start", "step", "scores")
        }
        yield f"--dim {dim}", _scale_queries(dataclasses.replace(needs, **scaled), share)


def _scale_queries(needs: Needs, share: float) -> Needs:
    """Scales the bytes of the queries of a memory by a share."""
    queries = round(needs.queries * share)
    neighbours = needs.neighbours - needs.queries + queries
    return dataclasses.replace(needs, neighbours=neighbours, queries=queries)


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
