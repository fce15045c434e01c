"""Builds the source of batches of a run: the points that this process needs, weighted."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.device_parts import local_data_parts
from snm.batches.epoch_order import Order
from snm.batches.schedule import Schedule
from snm.batches.sources.counts import PointCounts
from snm.batches.sources.on_device import Capacity, DeviceSource
from snm.batches.sources.on_host import HostSource
from snm.batches.sources.sizes import EpochSizes
from snm.batches.sources.source import BatchSettings, Source
from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.csr import count_ids
from snm.data.dataset import Points
from snm.data.mapped import select_rows
from snm.data.weighting import Weighting
from snm.distributed.mesh import DATA, parse_mesh
from snm.distributed.processes import broadcast_from_first, has_several_processes
from snm.errors import InputError
from snm.head.spec import HeadSpec
from snm.machine.platform import device_bytes, platform
from snm.sampling.protocol import Sampler, SamplerInputs
from snm.sampling.samplers import SAMPLERS
from snm.sampling.uniform import UniformSampler
from snm.tables.columns import count_frequent

__all__ = ["keeps_on_device", "make_run_source", "make_source"]

_DEFAULTS = BatchSettings()
_TINY = np.finfo(np.float32).tiny
_RESIDENT_FRACTION = 0.3  # largest fraction of the device's memory for the training set


def make_run_source(
    config: ResolvedConfig,
    spec: HeadSpec,
    points: Points,
    rows: NDArray[np.int64] | None,
    weighting: Weighting,
    mesh: Mesh | None = None,
    *,
    seed: int,
) -> Source:
    """The source of batches of a resolved configuration.

    Args:
      config: the settings.
      spec: the head.
      points: n points, as in the files.
      rows: int [m], the rows to train on; None is all.
      weighting: the weighting of the features.
      mesh: the devices, or None for one; the source makes the data parts of this process.
      seed: of the member, for the order, the positives and the samples.
    """
    data_parts = 1 if mesh is None else mesh.shape[DATA]
    own_parts = range(1) if mesh is None else local_data_parts(mesh)
    labelled = points.labelled(rows)
    order = Order.of(len(labelled), config.batch_size, seed, data_parts)
    width = order.batch_size // data_parts
    own = order.points_at_positions(own_parts.start * width, own_parts.stop * width)
    mean_weight = points.mean_weight
    if mean_weight is None:
        weights = points.weights
        mean_weight = 1.0 if weights is None else float(weights[labelled].mean(dtype=np.float64))
    own_rows = labelled[own.start : own.stop]
    resized = bool(config.sampled_start)  # B changes during the run
    sampler = None if spec.samples_all and not resized else SAMPLERS[config.sampler]
    features_per_point, one = np.diff(weighting.starts(points.features)), spec.one_positive
    counts = PointCounts.of(
        features_per_point, points.labels, labelled, own.start, sampler, one_positive=one
    )
    capacity = None
    if rows is not None and mesh is None:
        capacity = _capacity_for_all(config, points, features_per_point, order)
    entries = [int(counts.features.sum()), int(counts.labels.sum())]
    if capacity is not None:
        entries = [capacity.feature_entries, capacity.label_entries]
    source = make_source(
        spec,
        weighting.apply(_own_rows(points.features, own_rows)),
        _weighted_labels(points, own_rows, mean_weight),
        order,
        settings=BatchSettings(
            positive_weights=config.positive_weights,
            input_dropout=config.input_dropout,
            drop_seen=config.seen == "drop",
        ),
        sampler=sampler,
        sampler_options={
            name: getattr(config, name)
            for name in getattr(sampler, "option_names", ())
            if hasattr(config, name)
        },
        resident=keeps_on_device(config, *(count // data_parts for count in entries)),
        data_parts=None if mesh is None else data_parts,
        own=None if mesh is None else own_parts,
        counts=counts,
        capacity=capacity,
    )
    steps = config.epochs * source.steps_per_epoch
    return dataclasses.replace(source, schedule=Schedule.of(config, steps))


def _capacity_for_all(
    config: ResolvedConfig, points: Points, features_per_point: NDArray[np.integer], order: Order
) -> Capacity | None:
    """The capacity for all points, if this phase trains on some and another phase on all.

    None if there is no such phase, or if they cannot share a program: additional splits of items
    differ between members, and batches of fewer points than `batch_size` have another size.
    """
    retrains = config.members > 1 and not config.validation_fraction and not config.item_splits
    if not (config.refit or retrains):
        return None
    every = points.labelled()
    if min(config.batch_size, len(every)) != order.batch_size:
        return None
    labels_per_point = np.diff(points.labels.indptr)
    return Capacity(
        points=len(every),
        feature_entries=int(features_per_point[every].sum()),
        label_entries=int(labels_per_point[every].sum()),
    )


def _own_rows(matrix: csr_matrix, rows: NDArray[np.int64]) -> csr_matrix:
    """Rows of a matrix; with several processes in memory, as each has memory for its part."""
    return matrix[rows] if has_several_processes() else select_rows(matrix, rows)


def _weighted_labels(points: Points, rows: NDArray[np.int64], mean_weight: float) -> csr_matrix:
    """The labels of points; the values are weights of points (over their mean) times labels."""
    labels = _own_rows(points.labels, rows)
    if points.weights is None and points.label_weights is None:
        return labels
    values = labels.data
    if points.weights is not None:
        point_weights = (points.weights[rows] / mean_weight).astype(np.float32)
        values = values * np.repeat(point_weights, np.diff(labels.indptr))
    if points.label_weights is not None:
        values = values * points.label_weights[labels.indices]
    # A product that is rounded to 0 would count as padding.
    values = np.maximum(values, _TINY)
    return csr_matrix((values, labels.indices, labels.indptr), shape=labels.shape)


def make_source(
    spec: HeadSpec,
    features: csr_matrix,
    labels: csr_matrix,
    order: Order,
    *,
    settings: BatchSettings = _DEFAULTS,
    sampler: type[Sampler] | None = UniformSampler,
    sampler_options: Mapping[str, Any] | None = None,
    resident: bool = False,
    data_parts: int | None = None,
    own: range | None = None,
    counts: PointCounts | None = None,
    capacity: Capacity | None = None,
) -> Source:
    """The training points with at least one label, ready to be cut into steps.

    Args:
      spec: the head.
      features: float32 CSR [m, d], weighted; with `counts`, the points of the parts in `own`.
      labels: CSR [m, K], of the same points; the values are the weights of the points and of the
        labels.
      order: the order of the points with labels, all N of them.
      settings: settings of the batches.
      sampler: the class of the sampler; None if all labels are negatives in every step.
      sampler_options: the values of the settings that it lists in its `option_names`, by name.
      resident: whether to keep the points on the device.
      data_parts: number of parts of a batch on a mesh, a divisor of its size; None without a mesh.
      own: the parts that this process makes; None for all.
      counts: of all points, which all have labels; None if `features` and `labels` are all points.
      capacity: as in `DeviceSource`.

    Raises:
      ValueError: another number of points in `order` than have labels.
    """
    parts = data_parts or 1
    if counts is None:
        labelled = np.flatnonzero(np.diff(labels.indptr))
        features_per_point, one = np.diff(features.indptr), spec.one_positive
        counts = PointCounts.of(features_per_point, labels, labelled, 0, sampler, one_positive=one)
        features, labels = select_rows(features, labelled), select_rows(labels, labelled)
    if order.num_points != len(counts.labels):
        raise ValueError(f"{len(counts.labels)} points, and {order.num_points} in the order")
    sizes = EpochSizes(order, counts, parts, 0.0 if resident else settings.input_dropout)
    shared: dict[str, Any] = dict(
        spec=spec,
        settings=settings,
        sizes=sizes,
        features=features,
        labels=labels,
        sampler_of=_sampler_of(sampler, sampler_options or {}, order, counts),
        own=own,
    )
    if resident:
        return DeviceSource(**shared, capacity=capacity)
    num_frequent = None
    if data_parts is None and platform() == "cpu" and spec.row_rule.linear:
        of_feature = count_ids(features.indices, features.shape[1])
        num_frequent = count_frequent(of_feature * (1 - settings.input_dropout), features.shape[0])
    return HostSource(**shared, num_frequent=num_frequent)


def _sampler_of(
    kind: type[Sampler] | None, options: Mapping[str, Any], order: Order, counts: PointCounts
) -> Callable[[HeadSpec], Sampler | None]:
    """Builds the sampler of a head, once for each B."""

    @functools.cache
    def of_size(num_labels: int, size: int) -> Sampler:
        assert kind is not None
        return kind.build(
            SamplerInputs(
                num_labels=num_labels,
                size=size,
                seed=order.seed,
                num_points=order.num_points,
                batch_size=min(order.batch_size, order.num_points),  # without empty places
                label_frequency=counts.label_frequency,
                label_draws=counts.label_draws,
                options=options,
            )
        )

    def sampler_of(head: HeadSpec) -> Sampler | None:
        if kind is None or head.samples_all:
            return None
        return of_size(head.num_labels, head.num_slots)

    return sampler_of


def keeps_on_device(config: Config, *entries: int) -> bool:
    """Whether to keep the training set on the device: an accelerator with enough memory.

    Args:
      config: the settings.
      entries: numbers of entries of features and labels on each device.

    Raises:
      InputError: the settings require the device, but there are too many entries for int32, or the
        sampler needs the positives of the whole batch.
    """
    parts = parse_mesh(config.mesh)[0]
    if SAMPLERS[config.sampler].needs_batch_positives and parts > 1:
        # Only the host sees the positives of the whole batch.
        if config.data_on == "device":
            found = f"sampler {config.sampler} and a mesh of {parts} data parts"
            raise InputError("--data-on device", found, "--data-on host, or another sampler")
        return False
    numbered = max(entries) < 2**31
    if config.data_on == "device" and not numbered:
        found = f"{max(entries):,} entries on a device"
        raise InputError("--data-on device", found, "fewer than 2^31, or --data-on host")
    if config.data_on != "auto":
        return config.data_on == "device"
    if platform() == "cpu":
        return False  # host and device share the memory: nothing to gain
    fits = numbered and 8 * sum(entries) < _RESIDENT_FRACTION * (device_bytes() or 0)
    # Processes may see slightly different limits.
    return bool(broadcast_from_first([int(fits)], 1)[0])
