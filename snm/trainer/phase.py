"""The phases of a run: their points, their inputs and their outcome.

Each member of a run has one phase, or two if `refit` trains it again on all points.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jax.sharding import Mesh

from snm.batches.epoch_order import Order
from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset, Points
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.evaluation.evaluate import can_evaluate
from snm.evaluation.metrics import metric_names
from snm.model.model import TrainState
from snm.runs.events import Counters
from snm.runs.folder import RunFolder
from snm.runs.members import refit_phase, train_phase
from snm.text import nearest
from snm.trainer.start.prepare import Prepared, prepare
from snm.trainer.start.training_points import training_points
from snm.trainer.start.warm_start import WarmStart

__all__ = [
    "Phase",
    "PhaseInputs",
    "RunInputs",
    "TrainedPhase",
    "count_steps_per_epoch",
    "first_phase",
    "prepare_first_phase",
]


@dataclasses.dataclass(frozen=True)
class Phase:
    """The member that a phase trains, its training points and its validation points.

    Attributes:
      member: counted from 1.
      refit: whether it trains the member again, on all points.
      held_out: the validation points, or None.
      rows: int [n], ascending, the rows of the data's train part to train on; None is all.
    """

    member: int = 1
    refit: bool = False
    held_out: Points | None = None
    rows: np.ndarray | None = None

    @property
    def name(self) -> str:
        """Its name in the run's folder and log."""
        return (refit_phase if self.refit else train_phase)(self.member)

    @property
    def is_first(self) -> bool:
        """Whether a run begins with it."""
        return self.member == 1 and not self.refit

    def of_member(self, member: int, kept: np.ndarray | None) -> Phase:
        """The first phase of a member; member 1 leaves out the points that choose a memory.

        Args:
          member: counted from 1.
          kept: int [n], ascending, the points of train that do not choose a memory; None is all.
        """
        # Validation points, if there are any, choose the memory. Every member leaves them out.
        if member > 1 or kept is None or self.held_out is not None:
            return dataclasses.replace(self, member=member)
        return dataclasses.replace(self, member=member, rows=kept)


@dataclasses.dataclass
class TrainedPhase:
    """The outcome of a phase, without its points.

    Attributes:
      progress: the counters at its end.
      steps_per_epoch: steps of a pass over its points.
      points: the number of visits to points, over all epochs.
      mesh: the devices, or None for one.
      state: the parameters for predictions, if they are in memory: of a run with one member, on one
        device; else None.
    """

    progress: Counters
    steps_per_epoch: int
    points: float
    mesh: Mesh | None
    state: TrainState | None


@dataclasses.dataclass(frozen=True)
class PhaseInputs:
    """The inputs of all phases of a training.

    Attributes:
      config: the settings of the run.
      dataset: as loaded.
      weighting: of features, fitted.
    """

    config: ResolvedConfig
    dataset: Dataset
    weighting: Weighting


@dataclasses.dataclass(frozen=True)
class RunInputs(PhaseInputs):
    """The inputs of all phases of a run.

    Attributes:
      folder: of the run.
      warm_start: another run, whose parameters a new run starts from; or None.
    """

    folder: RunFolder
    warm_start: WarmStart | None = None


def count_steps_per_epoch(config: ResolvedConfig, dataset: Dataset) -> int:
    """The number of steps per epoch of the first phase, without preparing its batches.

    Raises:
      InputError: as `first_phase`.
    """
    phase = first_phase(config, dataset)
    points, rows, _ = training_points(config, dataset, phase.rows, config.seed)
    return Order.of(len(points.labelled(rows)), config.batch_size, config.seed).steps


def first_phase(config: ResolvedConfig, dataset: Dataset) -> Phase:
    """The phase that trains on all training points, or on all but the validation points.

    Raises:
      InputError: `monitor` is not a metric, or the validation points lack the labels for it, or
        either part has no labels.
    """
    if not config.validation_fraction:
        return Phase()
    metrics = metric_names(dataset.train.num_labels, auc=config.auc)
    if config.monitor not in metrics:
        found = f"{config.monitor!r}, no metric"
        expected = nearest(config.monitor, metrics, f"such as {metrics[0]}")
        raise InputError("--monitor", found, expected)
    train_rows, validation_rows = dataset.rows_of_split(config.validation_fraction, config.seed)
    validation_rows = dataset.train.with_positive_weight(validation_rows)
    if not all(len(dataset.train.labelled(rows)) for rows in (train_rows, validation_rows)):
        found = f"{config.validation_fraction} of {dataset.train.num_points} points"
        raise InputError("--validation-fraction", found, "labels in either part")
    validation = dataset.train.take(validation_rows)
    if not can_evaluate(validation, config.monitor):
        found = f"{config.monitor!r}, and no validation point has the labels for it"
        expected = "points with labels that are not filtered, for AUC some that lack other labels"
        raise InputError("--monitor", found, expected)
    return Phase(held_out=validation, rows=train_rows)


def prepare_first_phase(config: ResolvedConfig, dataset: Dataset) -> tuple[Phase, Prepared]:
    """The first phase of a run and what it needs, without a run.

    Raises:
      InputError: as `first_phase` and `prepare`.
    """
    phase = first_phase(config, dataset)
    weighting = Weighting.fit(config.weighting, dataset.train.features)
    return phase, prepare(config, dataset, weighting, phase.rows)
