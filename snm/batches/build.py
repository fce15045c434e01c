"""The training points of a run as a source of batches: those that this process needs, weighted."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.device_parts import lanes_here
from snm.batches.epoch_order import Order
from snm.batches.source import Source
from snm.config.settings import Config
from snm.data.dataset import Points
from snm.data.weighting import Weighting
from snm.distributed.dataset import column_counts
from snm.distributed.mesh import DATA, parse_mesh
from snm.distributed.processes import of_first
from snm.head.spec import HeadSpec
from snm.sampling.frequency import FrequencySampler
from snm.sampling.in_batch import in_batch_log_weights
from snm.tables.by_row import count_frequent
from snm.tables.optimizers import ROW_OPTIMIZERS

__all__ = ["Share", "keeps_on_device", "labelled_rows", "make_source", "source_of"]

_RESIDENT_SHARE = 0.3  # of the device's memory that the training set may take


def labelled_rows(points: Points, rows: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Those of some rows (None: of all) that have a label, int64, in their order."""
    counts = np.diff(points.labels.indptr)
    return np.flatnonzero(counts) if rows is None else rows[counts[rows] > 0]


def source_of(
    config: Config,
    spec: HeadSpec,
    points: Points,
    rows: NDArray[np.int64] | None,
    weighting: Weighting,
    mesh: Mesh | None = None,
) -> Source:
    """The loader of a resolved configuration.

    Args:
      config: the settings.
      spec: the head.
      points: n points, as in the files.
      rows: int [m], those to train on; None is all.
      weighting: of features.
      mesh: the devices, or None for one; the source makes the lanes of this process's.
    """
    lanes = 1 if mesh is None else mesh.shape[DATA]
    here = range(1) if mesh is None else lanes_here(mesh)
    labelled = labelled_rows(points, rows)
    order = Order.of(len(labelled), config.batch_size, config.seed, lanes)
    width = order.batch_size // lanes
    own = order.points_at(here.start * width, here.stop * width)
    mine = labelled[own.start : own.stop]
    share = Share.of(points.features, points.labels, labelled, own.start, config.sampler)
    entries = [int(of_points.sum()) for of_points in (share.feature_counts, share.label_counts)]
    return make_source(
        spec,
        weighting.apply(_rows_of(points.features, mine)),
        _rows_of(points.labels, mine),
        batch_size=config.batch_size,
        seed=config.seed,
        weight_of_term=config.positive_weights,
        resident=keeps_on_device(config, *(count // lanes for count in entries)),
        sampler=config.sampler,
        frequency_power=config.frequency_power,
        lanes=None if mesh is None else lanes,
        own=None if mesh is None else here,
        share=share,
    )


def _rows_of(matrix: csr_matrix, rows: NDArray[np.int64]) -> csr_matrix:
    """Some rows; the matrix itself where they are all."""
    return matrix if len(rows) == matrix.shape[0] else matrix[rows]


@dataclasses.dataclass(frozen=True, eq=False)
class Share:
    """What a process must know of the points that it does not make batches of.

    Attributes:
      first: the number of its own first point.
      feature_counts: int [N], features of each of all points.
      label_counts: int [N], labels of each, 1 at least.
      label_frequency: int [K], points of each label, where the sampler asks for it.
      labels: CSR [N, K], where the sampler is in-batch.
    """

    first: int
    feature_counts: np.ndarray
    label_counts: np.ndarray
    label_frequency: np.ndarray | None
    labels: csr_matrix | None

    @classmethod
    def of(
        cls,
        features: csr_matrix,
        labels: csr_matrix,
        rows: NDArray[np.int64],
        first: int,
        sampler: str,
    ) -> Share:
        """What the points of some rows have, for a process whose own begin at the `first` of them.

        Args:
          features: CSR [n, d].
          labels: CSR [n, K].
          rows: int64 [N], those with a label.
          first: from 0 to N - 1.
          sampler: uniform, frequency or in-batch.
        """
        asks = sampler in ("frequency", "in-batch")
        return cls(
            first=first,
            feature_counts=np.diff(features.indptr)[rows],
            label_counts=np.diff(labels.indptr)[rows],
            label_frequency=column_counts(labels, rows) if asks else None,
            labels=_rows_of(labels, rows) if sampler == "in-batch" else None,
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
    lanes: int | None = None,
    own: range | None = None,
    share: Share | None = None,
) -> Source:
    """The training points with at least one label, ready to be cut into steps.

    Args:
      spec: the head.
      features: float32 CSR [N, d], weighted; with a share, of its points only.
      labels: CSR [N, K], likewise.
      batch_size: points a step; at most all of them.
      seed: of order, positives and samples.
      weight_of_term: sum or mean.
      resident: keep the points on the device.
      sampler: uniform, frequency or in-batch.
      frequency_power: of the frequency sampler.
      lanes: parts that a batch is cut into on a mesh; a divisor of `batch_size`.
      own: those that this process makes; None for all.
      share: of the points, all of which have labels; None is all of them.
    """
    parts = lanes or 1
    if share is None:
        labelled = np.flatnonzero(np.diff(labels.indptr))
        share = Share.of(features, labels, labelled, 0, sampler)
        features, labels = _rows_of(features, labelled), _rows_of(labels, labelled)
    order = Order.of(len(share.label_counts), batch_size, seed, parts)
    num_frequent = None
    on_cpu = lanes is None and not resident and jax.default_backend() == "cpu"
    if on_cpu and ROW_OPTIMIZERS[spec.row_optimizer].linear:
        counts = np.bincount(features.indices, minlength=features.shape[1])
        num_frequent = count_frequent(counts, features.shape[0])
    by_frequency = in_batch = None
    if sampler == "frequency":
        assert share.label_frequency is not None
        by_frequency = FrequencySampler(share.label_frequency, frequency_power)
    if sampler == "in-batch":
        assert share.label_frequency is not None
        in_batch = in_batch_log_weights(share.label_frequency, order.num_points, order.batch_size)
    return Source(
        spec=spec,
        order=order,
        features=features,
        labels=labels,
        first=share.first,
        feature_counts=share.feature_counts,
        label_counts=share.label_counts,
        weight_of_term=weight_of_term,
        resident=resident,
        sampler=sampler,
        frequency=by_frequency,
        in_batch_weights=in_batch,
        num_frequent=num_frequent,
        lanes=parts,
        own=own,
        candidates=share.labels,
    )


def keeps_on_device(config: Config, *entries: int) -> bool:
    """Whether the training set lives on the device: where it is an accelerator with room."""
    if config.sampler == "in-batch" and parse_mesh(config.mesh)[0] > 1:
        return False  # the candidates come from the whole batch, which the host sees
    if config.data_on != "auto":
        return config.data_on == "device"
    if jax.default_backend() == "cpu":
        return False  # the host's memory is the device's: nothing to gain
    limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    fits = 8 * sum(entries) < _RESIDENT_SHARE * limit
    return bool(of_first([int(fits)], 1)[0])  # what devices report may differ a little
