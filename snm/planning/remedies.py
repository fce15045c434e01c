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
    """Single changes that make a run fit and that training takes, the least costly first.

    Args:
      expected: forecast of the run as it is.
      config: its settings.
      model: of one member.
      limit: bytes of the device.
      on_cpu: whether a CPU trains, or simulates the devices that do.
      together: whether the limit is of this machine, whose memory its simulated devices share.

    Yields:
      The flags, and the bytes at the peak with them. Activations are scaled in proportion.
    """
    for flags, changed in _changes(expected.needs, config, model, limit):
        host, device = bytes_by_stage(changed, on_cpu)
        now = Forecast(host, device, changed, expected.steps_per_epoch)
        peak = now.peak_host if together else now.peak_device
        if peak <= limit:
            yield flags, peak


def _changes(
    needs: Needs, config: ResolvedConfig, model: Model, limit: int
) -> Iterator[tuple[str, Needs]]:
    data, label = parse_mesh(config.mesh)
    for fewer in range(needs.at_once - 1, 0, -1):
        yield f"--members-at-once {fewer}", dataclasses.replace(needs, at_once=fewer)
    if needs.resident:
        yield "--data-on host", dataclasses.replace(needs, resident=0)
    if ROW_OPTIMIZERS[config.row_optimizer].has_accumulator:
        of_features = {DATA: data, LABEL: label}[feature_axis(data, label)]
        rows = 4 * (-(-model.num_features // of_features) + -(-model.spec.num_labels // label))
        less = dataclasses.replace(
            needs,
            optimiser=max(needs.optimiser - rows, 0),
            whole=max(needs.whole - 4 * (model.num_features + model.spec.num_labels), 0),
        )
        yield "--row-optimizer sgd", less
    if needs.neighbours:
        yield "--memory off", dataclasses.replace(needs, neighbours=0, queries=0)
    for members in range(needs.members - 1, 0, -1):
        less = dataclasses.replace(needs, members=members, at_once=min(needs.at_once, members))
        yield f"--members {members}", _with_queries(less, members / needs.members)
    for batch in (config.batch_size // 2, config.batch_size // 4, config.batch_size // 8):
        if batch and batch % data == 0:
            share = batch / config.batch_size
            less = dataclasses.replace(
                needs, step=round(needs.step * share), stack=round(needs.stack * share)
            )
            yield f"--batch-size {batch}", less
    for dim in _smaller(model.dim):
        share = dim / model.dim
        scaled = {
            name: round(getattr(needs, name) * share)
            for name in ("tables", "optimiser", "whole", "start", "step", "scores")
        }
        yield f"--dim {dim}", _with_queries(dataclasses.replace(needs, **scaled), share)


def _with_queries(needs: Needs, share: float) -> Needs:
    """A memory of neighbours whose queries have a share of their numbers."""
    queries = round(needs.queries * share)
    neighbours = needs.neighbours - needs.queries + queries
    return dataclasses.replace(needs, neighbours=neighbours, queries=queries)


def _smaller(dim: int) -> Iterator[int]:
    """Smaller dimensions, largest first: multiples of 32, then of 8; those that training takes.

    From 4096 on they are further apart, by at most a 64th, so that any dimension has few of them.
    """
    unit, rest = dim_multiple(), dim - 1
    while rest >= 8:
        step = 32 << max(rest.bit_length() - 12, 0) if rest >= 32 else 8
        smaller = rest // step * step
        if smaller % unit == 0:
            yield smaller
        rest = smaller - 1
