"""What a phase of a run trains on, and what is left of it at its end.

Each member of a run has one phase, or two where `refit` trains it again on all points.
"""

from __future__ import annotations

import dataclasses
from typing import Self

import numpy as np
from jax.sharding import Mesh

from snm.batches.epoch_order import Order
from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset, Points
from snm.data.weighting import Weighting
from snm.errors import InputError, nearest
from snm.evaluation.evaluate import can_evaluate
from snm.evaluation.metrics import metric_names
from snm.model.model import TrainState
from snm.runs.events import Progress
from snm.runs.folder import RunFolder
from snm.runs.members import member_seed, phase_names
from snm.trainer.prepare import all_points, trained_beside
from snm.trainer.warm_start import WarmStart

__all__ = ["Phase", "PhaseInputs", "RunInputs", "Trained", "first_phase", "steps_of_epoch"]


@dataclasses.dataclass(frozen=True)
class Phase:
    """The points that a phase trains on, and those that it watches.

    Attributes:
      name: of `snm.runs.members.phase_names`.
      held_out: points to evaluate on while training, or None.
      rows: int [n], ascending, the points of train to train on; None is all.
    """

    name: str
    held_out: Points | None = None
    rows: np.ndarray | None = None

    def of_member(self, member: int, kept: np.ndarray | None) -> Phase:
        """The first phase of a member; member 1 leaves out the points that choose a memory.

        Args:
          member: counted from 1.
          kept: int [n], ascending, the points of train that do not choose a memory; None is all.
        """
        name, _ = phase_names(member)
        # Where there are points to watch, these choose it, and every member leaves them out.
        if member > 1 or kept is None or self.held_out is not None:
            return dataclasses.replace(self, name=name)
        return dataclasses.replace(self, name=name, rows=kept)


@dataclasses.dataclass
class Trained:
    """What is left of a phase that was trained, without its points.

    Attributes:
      progress: the counters at its end.
      steps_per_epoch: steps of a pass over its points.
      points: visited, counted once a visit.
      mesh: the devices, or None for one.
      state: what predictions use, where that is in memory: of one member, on one device.
    """

    progress: Progress
    steps_per_epoch: int
    points: float
    mesh: Mesh | None
    state: TrainState | None


@dataclasses.dataclass(frozen=True)
class PhaseInputs:
    """What all phases of a training are made from.

    Attributes:
      config: the settings; in the inputs of a member, `seed` is that of the member.
      dataset: as loaded.
      weighting: of features, fitted.
    """

    config: ResolvedConfig
    dataset: Dataset
    weighting: Weighting

    def of_member(self, member: int) -> Self:
        """Those of a member, counted from 1."""
        seed = member_seed(self.config.seed, member)
        return dataclasses.replace(self, config=dataclasses.replace(self.config, seed=seed))


@dataclasses.dataclass(frozen=True)
class RunInputs(PhaseInputs):
    """What all phases of a run are made from.

    Attributes:
      folder: of the run.
      warm_start: another run, whose parameters a new run starts from; or None.
    """

    folder: RunFolder
    warm_start: WarmStart | None = None


def steps_of_epoch(config: ResolvedConfig, dataset: Dataset) -> int:
    """The steps of an epoch of the first phase, for which only its points are made.

    Raises:
      InputError: as `first_phase`.
    """
    rows, names = first_phase(config, dataset).rows, trained_beside(config, dataset)
    points, rows = all_points(config, dataset.train, rows, names)
    return Order.of(len(points.labelled(rows)), config.batch_size, config.seed).steps


def first_phase(config: ResolvedConfig, dataset: Dataset) -> Phase:
    """The phase that trains on all points of train, or on those that are not held out.

    Raises:
      InputError: `monitor` names no metric, or one that the points held out have not the labels
        for, or either part has no label.
    """
    if not config.validation_fraction:
        return Phase("train")
    known = metric_names(dataset.train.num_labels, auc=config.auc)
    if config.monitor not in known:
        found = f"{config.monitor!r}, no metric"
        raise InputError("--monitor", found, nearest(config.monitor, known, f"such as {known[0]}"))
    kept, held = dataset.rows_of_split(config.validation_fraction, config.seed)
    held = dataset.train.with_positive_weight(held)
    if not len(dataset.train.labelled(kept)) or not len(dataset.train.labelled(held)):
        found = f"{config.validation_fraction} of {dataset.train.num_points} points"
        raise InputError("--validation-fraction", found, "labels in either part")
    points = dataset.train.take(held)
    if not can_evaluate(points, config.monitor):
        found = f"{config.monitor!r}, and no validation point has the labels for it"
        expected = "points with labels that are not filtered, for AUC some that lack other labels"
        raise InputError("--monitor", found, expected)
    return Phase("train", points, kept)
