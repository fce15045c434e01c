"""Builds the source of batches of a run: the points that this process needs, weighted."""

from __future__ import annotations

import dataclasses

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.device_parts import local_data_parts
from snm.batches.epoch_order import Order
from snm.batches.source import Source
from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Points, counts_of_ids
from snm.data.mapped import rows_of
from snm.data.weighting import Weighting
from snm.distributed.dataset import column_counts, label_draws
from snm.distributed.mesh import DATA, parse_mesh
from snm.distributed.processes import from_first_process, has_several_processes
from snm.errors import InputError
from snm.head.spec import HeadSpec
from snm.machine.platform import device_bytes, platform
from snm.sampling.protocol import Sampler, SamplerInputs
from snm.sampling.samplers import SAMPLERS
from snm.tables.by_row import count_frequent
from snm.tables.optimizers import ROW_OPTIMIZERS

__all__ = ["PointCounts", "keeps_on_device", "make_source", "source_of"]

_TINY = np.finfo(np.float32).tiny
_RESIDENT_FRACTION = 0.3  # of the device's memory that the training set may take


def source_of(
    config: ResolvedConfig,
    spec: HeadSpec,
    points: Points,
    rows: NDArray[np.int64] | None,
    weighting: Weighting,
    mesh: Mesh | None = None,
) -> Source:
    """The source of batches of a resolved configuration.

    Args:
      config: the settings.
      spec: the head.
      points: n points, as in the files.
      rows: int [m], those to train on; None is all.
      weighting: of features.
      mesh: the devices, or None for one; the source makes the data parts of this process.
    """
    data_parts = 1 if mesh is None else mesh.shape[DATA]
    here = range(1) if mesh is None else local_data_parts(mesh)
    labelled = points.labelled(rows)
    order = Order.of(len(labelled), config.batch_size, config.seed, data_parts)
    width = order.batch_size // data_parts
    own = order.points_at(here.start * width, here.stop * width)
    mine = labelled[own.start : own.stop]
    resized = bool(config.sampled_start)
    sampler = None if spec.samples_all and not resized else SAMPLERS[config.sampler]
    one = spec.positives == "one"
    of_points = np.diff(weighting.starts(points.features))
    counts = PointCounts.of(
        of_points, points.labels, labelled, own.start, sampler, one_positive=one
    )
    entries = [int(each.sum()) for each in (counts.feature_counts, counts.label_counts)]
    room = None
    if rows is not None and mesh is None:
        room = _room_for_all(config, points, of_points, order)
    if room is not None:
        entries = [*room[1:]]
    source = make_source(
        spec,
        weighting.apply(_own_rows(points.features, mine)),
        _weighed_labels(points, mine),
        batch_size=config.batch_size,
        seed=config.seed,
        weight_of_term=config.positive_weights,
        resident=keeps_on_device(config, *(count // data_parts for count in entries)),
        sampler=config.sampler,
        frequency_power=config.frequency_power,
        data_parts=None if mesh is None else data_parts,
        own=None if mesh is None else here,
        counts=counts,
        input_dropout=config.input_dropout,
        drop_seen=config.seen == "drop",
        resized=resized,
    )
    return dataclasses.replace(source, room=room) if source.resident else source


def _room_for_all(
    config: ResolvedConfig, points: Points, of_points: NDArray[np.integer], order: Order
) -> tuple[int, int, int] | None:
    """`Source.room` for all points, where one phase trains on some in this order, another on all.

    None where no other does, or where they share no program anyway: further splits of items are
    others for each member, and batches of fewer points than `batch_size` have another size.
    """
    again = config.members > 1 and not config.validation_fraction and not config.item_splits
    if not (config.refit or again):
        return None
    every = points.labelled()
    if min(config.batch_size, len(every)) != order.batch_size:
        return None
    of_labels = np.diff(points.labels.indptr)
    return len(every), int(of_points[every].sum()), int(of_labels[every].sum())


def _own_rows(matrix: csr_matrix, rows: NDArray[np.int64]) -> csr_matrix:
    """Some rows. Several processes hold theirs: each was given memory for a part of the data."""
    return matrix[rows] if has_several_processes() else rows_of(matrix, rows)


def _weighed_labels(points: Points, rows: NDArray[np.int64]) -> csr_matrix:
    """The labels of some points; the values are the weights of the points and of the labels."""
    labels = _own_rows(points.labels, rows)
    if points.weights is None and points.label_weights is None:
        return labels
    values = labels.data
    if points.weights is not None:
        values = values * np.repeat(points.weights[rows], np.diff(labels.indptr))
    if points.label_weights is not None:
        # A product that is rounded to 0 would be taken for padding.
        values = np.maximum(values * points.label_weights[labels.indices], _TINY)
    return csr_matrix((values, labels.indices, labels.indptr), shape=labels.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class PointCounts:
    """What a process needs to know of all N points, those that it does not read included.

    Attributes:
      first: the number of the first point that the process itself makes batches of.
      feature_counts: int [N], features of each point.
      label_counts: int [N], labels of each point, at least 1.
      label_frequency: int [K], points of each label; None unless the sampler needs it.
      label_draws: float64 [2, K], as in `SamplerInputs`; None unless the sampler needs it.
      labels: CSR [N, K]; None unless the sampler needs the positives of whole batches.
    """

    first: int
    feature_counts: np.ndarray
    label_counts: np.ndarray
    label_frequency: np.ndarray | None
    label_draws: np.ndarray | None
    labels: csr_matrix | None

    @classmethod
    def of(
        cls,
        features: NDArray[np.integer],
        labels: csr_matrix,
        rows: NDArray[np.int64],
        first: int,
        sampler: type[Sampler] | None,
        *,
        one_positive: bool,
    ) -> PointCounts:
        """Counts some rows of a data set, which become points 0 .. N - 1.

        Args:
          features: int [n], of each point, weighted.
          labels: CSR [n, K].
          rows: int64 [N], those with a label.
          first: from 0 to N - 1.
          sampler: its class, which says what it needs; None if all labels are negatives.
          one_positive: a visit draws one of a point's labels; otherwise it takes all.
        """
        frequency = sampler is not None and sampler.needs_label_frequency
        positives = sampler is not None and sampler.needs_batch_positives
        return cls(
            first=first,
            feature_counts=features[rows],
            label_counts=np.diff(labels.indptr)[rows],
            label_frequency=column_counts(labels, rows) if frequency else None,
            label_draws=label_draws(labels, rows, one=one_positive) if positives else None,
            labels=rows_of(labels, rows) if positives else None,
        )


def make_source(
    spec: HeadSpec,
    features: csr_matrix,
    labels: csr_matrix,
    *,
    batch_size: int,
    seed: int,
    weight_of_term: str,
    resident: bool,
    sampler: str,
    frequency_power: float,
    data_parts: int | None = None,
    own: range | None = None,
    counts: PointCounts | None = None,
    input_dropout: float = 0.0,
    drop_seen: bool = False,
    resized: bool = False,
) -> Source:
    """The training points with at least one label, ready to be cut into steps.

    Args:
      spec: the head.
      features: float32 CSR [m, d], weighted; with `counts`, the points of the parts in `own`.
      labels: CSR [m, K], likewise; the values are the weights of the points and of the labels.
      batch_size: points a step; at most all of them.
      seed: of order, positives and samples.
      weight_of_term: sum or mean.
      resident: keep the points on the device.
      sampler: a name of `SAMPLERS`.
      frequency_power: of the frequency sampler.
      data_parts: parts that a mesh cuts a batch into, a divisor of `batch_size`; None without one.
      own: those that this process makes; None for all.
      counts: of all points, which all have labels; None if `features` and `labels` are all points.
      input_dropout: share of a point's features that a visit leaves out, in [0, 1).
      drop_seen: whether batches have all features of a point too, as labels to leave out.
      resized: whether other steps have another B.
    """
    parts = data_parts or 1
    kind = None if spec.samples_all and not resized else SAMPLERS[sampler]
    if counts is None:
        labelled = np.flatnonzero(np.diff(labels.indptr))
        one = spec.positives == "one"
        of_points = np.diff(features.indptr)
        counts = PointCounts.of(of_points, labels, labelled, 0, kind, one_positive=one)
        features, labels = rows_of(features, labelled), rows_of(labels, labelled)
    order = Order.of(len(counts.label_counts), batch_size, seed, parts)
    num_frequent = None
    on_cpu = data_parts is None and not resident and platform() == "cpu"
    if on_cpu and ROW_OPTIMIZERS[spec.row_optimizer].linear:
        of_feature = counts_of_ids(features.indices, features.shape[1])
        num_frequent = count_frequent(of_feature * (1 - input_dropout), features.shape[0])

    def sampler_of(head: HeadSpec) -> Sampler | None:
        if kind is None or head.samples_all:
            return None
        return kind.build(
            SamplerInputs(
                num_labels=head.num_labels,
                size=head.sampled + 1,
                seed=seed,
                num_points=order.num_points,
                batch_size=min(order.batch_size, order.num_points),  # without empty places
                label_frequency=counts.label_frequency,
                label_draws=counts.label_draws,
                frequency_power=frequency_power,
            )
        )

    return Source(
        spec=spec,
        order=order,
        features=features,
        labels=labels,
        first=counts.first,
        feature_counts=counts.feature_counts,
        label_counts=counts.label_counts,
        weight_of_term=weight_of_term,
        resident=resident,
        sampler=sampler_of(spec),
        num_frequent=num_frequent,
        data_parts=parts,
        own=own,
        labels_of_all=counts.labels,
        input_dropout=input_dropout,
        drop_seen=drop_seen,
        sampler_of=sampler_of if resized else None,
    )


def keeps_on_device(config: Config, *entries: int) -> bool:
    """Whether the training set lives on the device: an accelerator with room for it.

    Args:
      config: the settings.
      entries: of the features and of the labels, on each device.

    Raises:
      InputError: the settings keep them on the device, whose int32 numbers are too few, or which
        sees too few points for the sampler.
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
    return bool(from_first_process([int(fits)], 1)[0])
