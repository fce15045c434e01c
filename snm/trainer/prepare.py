"""The set-up of a training: resolved settings and points -> mesh, model, batches, stages.

`snm train`, `snm plan` and the estimator all set up here.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from snm.batches.dispatches import dispatch_length
from snm.batches.item_splits import add_splits
from snm.batches.sources.build import source_of
from snm.batches.sources.source import Source
from snm.config.resolve import label_names_obstacle
from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset, Points
from snm.data.id_space import features_are_labels
from snm.data.weighting import Weighting
from snm.distributed.host_copy import state_bytes
from snm.distributed.mesh import make_mesh
from snm.errors import InputError
from snm.machine.compiler import OptionsOf, answer_options, step_options
from snm.machine.platform import for_platform, platform
from snm.model.from_config import Stage, head_stages, make_model
from snm.model.model import Model, abstract_state

__all__ = [
    "Prepared",
    "all_points",
    "dim_unit",
    "members_at_once",
    "names_not_tried",
    "prepare",
    "steps_per_dispatch",
    "trained_beside",
]

_STEPS = {"cpu": 1, "gpu": 32, "tpu": 32}
"""Steps a dispatch: more gained nothing on a CPU, and a shorter last dispatch is compiled apart. On
an accelerator a step takes less time than a word with the host."""

_STEPS_OF_SAVING = (200, 5000)
"""The fewest steps between checkpoints, some ten times as long as writing a small model takes, and
the most that large tables ask for: on a CPU they are minutes, which a killed run repeats."""

_STEPS_OF_MIB = 2  # between checkpoints; a MiB is written in less than half a step

_STEPS_OF_SHORT = 250
"""Steps of all members within which their program without fusion emitters pays on a CPU: it saves
0.3 to 0.6 s of compiling, and a step takes up to 1.5 ms longer (`benchmarks/README.md`)."""

_DIM_UNIT = {"cpu": 1, "tpu": 128}
"""By platform: what `dim` is a multiple of. A TPU keeps narrower rows transposed between programs,
and XLA:TPU copies the whole table where it reads rows (compiled for v5e with 64)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """What the training of one member on one set of points consists of.

    Attributes:
      config: the settings.
      mesh: the devices, or None for one.
      source: the batches.
      model: with the last B and k' of the run.
      stages: of the run, in order; the first begins at step 0.
      total_steps: `config.epochs` passes over the points.
      steps_per_dispatch: steps that the device runs between two exchanges with the host.
      point_ids: int64 [N], the row in the training file of each point of the source; -1 - l for the
        name of label l.
    """

    config: ResolvedConfig
    mesh: Mesh | None
    source: Source
    model: Model
    stages: list[Stage]
    total_steps: int
    steps_per_dispatch: int
    point_ids: NDArray[np.int64]

    @property
    def checkpoint_every(self) -> int:
        """Steps between checkpoints; by default whole epochs, of which saving is a small part."""
        if self.config.checkpoint_every:
            return self.config.checkpoint_every
        epoch, (fewest, most) = self.source.steps_per_epoch, _STEPS_OF_SAVING
        mebibytes = state_bytes(abstract_state(self.model)) >> 20
        steps = min(max(fewest, _STEPS_OF_MIB * mebibytes), most)
        return epoch * -(-steps // epoch)

    @property
    def shares(self) -> list[tuple[Stage, float]]:
        """The stages, each with its share of the steps of the run."""
        ends = [stage.first_step for stage in self.stages[1:]] + [self.total_steps]
        return [
            (stage, (end - stage.first_step) / self.total_steps)
            for stage, end in zip(self.stages, ends, strict=True)
        ]

    @property
    def step_options(self) -> OptionsOf:
        """The compiler's options for the steps; a short training takes those that compile fast."""
        steps = self.total_steps * self.config.members
        return answer_options if steps <= _STEPS_OF_SHORT else step_options


def prepare(
    config: ResolvedConfig,
    points: Points,
    weighting: Weighting,
    rows: NDArray[np.int64] | None = None,
    more: Points | None = None,
    *,
    probe_every: int = 0,
) -> Prepared:
    """Sets up the training of one member.

    Args:
      config: the settings; `seed` is that of the member.
      points: n points, as in the files.
      weighting: of features, fitted.
      rows: int64 [m], ascending, the points to train on; None is all.
      more: further points, which are all trained on; see `trained_beside`.
      probe_every: steps between two looks at the model; 0 is none, or one an epoch.

    Raises:
      InputError: a mesh that these devices, labels or batches do not allow; on a TPU, a `dim` that
        is no multiple of 128.
    """
    unit = dim_unit()
    if config.dim % unit:
        expected = f"a multiple of {unit}: {platform()}s copy other tables at each dispatch"
        raise InputError("--dim", f"{config.dim}", expected)
    num_labels = points.num_labels
    mesh = make_mesh(config.mesh, num_labels, config.batch_size)
    model = make_model(config, points.num_features, num_labels)
    given = points.num_points
    points, rows = all_points(config, points, rows, more)
    point_ids = np.arange(points.num_points) % given  # a split is of the row that it was made from
    if more is not None:
        names = given * (1 + config.item_splits)
        point_ids[names:] = -1 - more.labels.indices.astype(np.int64)
    source = source_of(config, model.spec, points, rows, weighting, mesh)
    total_steps = source.schedule.steps
    watched = config.evaluate_every if config.validation_fraction else 0
    marks = config.checkpoint_every, watched, probe_every  # where dispatches end
    return Prepared(
        config=config,
        mesh=mesh,
        source=source,
        model=model,
        stages=head_stages(config, num_labels, total_steps),
        total_steps=total_steps,
        steps_per_dispatch=dispatch_length(
            source, config.steps_per_dispatch or steps_per_dispatch(), marks
        ),
        point_ids=point_ids[points.labelled(rows)],
    )


def trained_beside(config: ResolvedConfig, dataset: Dataset) -> Points | None:
    """The points that train beside those of the files: label names, where the settings say so."""
    return dataset.name_points if config.label_text == "on" else None


def all_points(
    config: ResolvedConfig, points: Points, rows: NDArray[np.int64] | None, more: Points | None
) -> tuple[Points, NDArray[np.int64] | None]:
    """The points in all of their splits, and further points after them.

    Args:
      config: the settings; `seed` is that of the member.
      points: n points, as in the files.
      rows: int64 [m], those to train on; None is all.
      more: further points, which are all trained on.

    Returns:
      The points, and the rows of these to train on: of those that have labels.
    """
    points, rows = add_splits(points, rows, config.item_splits, config.seed)
    if more is None:
        return points, rows
    first = points.num_points
    points = points.concatenate(more)
    if rows is not None:
        rows = np.append(rows, np.arange(first, points.num_points))
    return points, rows


def names_not_tried(config: Config, dataset: Dataset) -> str | None:
    """Why `--label-text auto` does not look at names that there are, in one line; else None."""
    if config.label_text != "auto" or dataset.label_names is None or dataset.vectorizer is None:
        return None
    if features_are_labels(dataset):
        return None  # they have no other words than the features
    refused = label_names_obstacle(dataset)
    return None if refused is None else f"label names: not trained on; found {refused[0]}"


def steps_per_dispatch() -> int:
    """Steps between two exchanges with the host, where the settings leave the number open."""
    return for_platform(_STEPS)


def dim_unit() -> int:
    """What `dim` is a multiple of here; `prepare` refuses another."""
    return for_platform(_DIM_UNIT)


def members_at_once(config: ResolvedConfig, mesh: Mesh | None) -> int:
    """Members that train side by side here: a mesh and an accelerator are given to one alone."""
    if mesh is not None or platform() != "cpu":
        return 1
    return min(config.members_at_once, config.members)
