"""Prepares a training: resolved settings and points -> mesh, model, batches, stages.

`snm train`, `snm plan` and the estimator all set up here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from snm.batches.dispatches import SaveTimes, dispatch_length
from snm.batches.sources.build import make_run_source
from snm.batches.sources.source import Source
from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.data.weighting import Weighting
from snm.distributed.host_copy import state_bytes
from snm.distributed.mesh import make_mesh
from snm.errors import InputError
from snm.machine.compiler import OptionsOf, answer_options, step_options
from snm.machine.platform import for_platform, platform
from snm.model.from_config import head_stages, make_model
from snm.model.model import Model, abstract_state
from snm.runs.members import member_seed
from snm.trainer.start.training_points import training_points
from snm.trainer.steps.programs import Stage

__all__ = [
    "Prepared",
    "dim_multiple",
    "members_at_once",
    "prepare",
    "save_times",
    "steps_per_dispatch",
]

_STEPS_PER_DISPATCH = {"cpu": 1, "gpu": 32, "tpu": 32}
"""By platform. On a CPU more steps gained nothing, and a shorter last dispatch needs a program of
its own. On an accelerator a step takes less time than an exchange with the host."""

_CHECKPOINT_STEPS_RANGE = (200, 5000)
"""The fewest and the most steps between checkpoints. The fewest take some ten times as long as
writing a small model; on a CPU the most take minutes, which a killed run repeats."""

_CHECKPOINT_STEPS_PER_MIB = 2  # writing a MiB takes less than half a step

_LONG_EPOCH_STEPS = 2000
"""An epoch of more steps has checkpoints in its middle too. On a CPU so many steps take 5 s to
minutes; 1,875 of 2.5 ms took at most some percent longer with 120 MiB written beside them."""

_SHORT_TRAINING_STEPS = 250
"""Steps of all members up to which a program without fusion emitters is faster on a CPU: it saves
0.3 to 0.6 s of compilation, and a step takes up to 1.5 ms longer (`benchmarks/README.md`)."""

_DIM_MULTIPLE = {"cpu": 1, "tpu": 128}
"""By platform: the number that `dim` must be a multiple of. A TPU keeps narrower rows transposed
between programs, and XLA:TPU copies the whole table to read rows (compiled for v5e with 64)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """The training of one member on one set of points, ready to run.

    Attributes:
      config: the settings of the run.
      member: counted from 1.
      mesh: the devices, or None for one.
      source: the batches.
      model: the model with the last B and k' of the run.
      stages: of the run, in order; the first begins at step 0.
      total_steps: `config.epochs` passes over the points.
      steps_per_dispatch: steps that the device runs between two exchanges with the host.
      saves: when checkpoints are saved; by default after whole epochs, and within long ones.
      point_ids: int64 [N], the row in the training file of each point of the source; -1 - l if the
        point is the name of label l.
    """

    config: ResolvedConfig
    member: int
    mesh: Mesh | None
    source: Source
    model: Model
    stages: list[Stage]
    total_steps: int
    steps_per_dispatch: int
    saves: SaveTimes
    point_ids: NDArray[np.int64]

    @property
    def seed(self) -> int:
        """The seed of the member."""
        return member_seed(self.config.seed, self.member)

    @property
    def step_options(self) -> OptionsOf:
        """The compiler options of the steps; a short training takes those that compile fast."""
        steps = self.total_steps * self.config.members
        return answer_options if steps <= _SHORT_TRAINING_STEPS else step_options


def prepare(
    config: ResolvedConfig,
    dataset: Dataset,
    weighting: Weighting,
    rows: NDArray[np.int64] | None = None,
    *,
    member: int = 1,
    periods: Iterable[int] = (),
) -> Prepared:
    """Prepares the training of one member.

    Args:
      config: the settings of the run.
      dataset: as loaded.
      weighting: of features, fitted.
      rows: int64 [m], ascending, the rows of the training set to train on; None is all.
      member: counted from 1; it has its own seed.
      periods: in steps, at whose ends a dispatch must end, beside those of the settings; 0 for
        none.

    Raises:
      InputError: a mesh that does not suit the devices, labels or batches; on a TPU, a `dim` that
        is not a multiple of 128.
    """
    multiple = dim_multiple()
    if config.dim % multiple:
        expected = f"a multiple of {multiple}: {platform()}s copy other tables at each dispatch"
        raise InputError("--dim", f"{config.dim}", expected)
    num_labels = dataset.train.num_labels
    mesh = make_mesh(config.mesh, num_labels, config.batch_size)
    model = make_model(config, dataset.train.num_features, num_labels)
    seed = member_seed(config.seed, member)
    points, rows, ids = training_points(config, dataset, rows, seed)
    source = make_run_source(config, model.spec, points, rows, weighting, mesh, seed=seed)
    total_steps = source.schedule.steps
    evaluate_every = config.evaluate_every if config.validation_fraction else 0
    size = state_bytes(abstract_state(model))
    saves = save_times(config, source.steps_per_epoch, size)
    periods = *saves, evaluate_every, *periods
    return Prepared(
        config=config,
        member=member,
        mesh=mesh,
        source=source,
        model=model,
        stages=_make_stages(config, model, source),
        total_steps=total_steps,
        steps_per_dispatch=dispatch_length(source, _most_steps(config), periods),
        saves=saves,
        point_ids=ids[points.labelled(rows)],
    )


def _make_stages(config: ResolvedConfig, model: Model, source: Source) -> list[Stage]:
    """The stages of a run, each with its model and its batches."""
    steps = source.schedule.steps
    heads = head_stages(config, model.spec.num_labels, steps)
    ends = [*(first for first, _ in heads[1:]), steps]
    return [
        Stage(
            first,
            (end - first) / steps,
            dataclasses.replace(model, spec=spec),
            dataclasses.replace(source, spec=spec),
        )
        for (first, spec), end in zip(heads, ends, strict=True)
    ]


def save_times(config: ResolvedConfig, steps_per_epoch: int, checkpoint_bytes: int) -> SaveTimes:
    """When a run saves; unless the settings say it, the steps between are long beside saving.

    A part of an epoch has whole dispatches, so that epochs have dispatches of the same few lengths.
    """
    if config.checkpoint_every:
        return SaveTimes(config.checkpoint_every)
    fewest, most = _CHECKPOINT_STEPS_RANGE
    steps = min(max(fewest, _CHECKPOINT_STEPS_PER_MIB * (checkpoint_bytes >> 20)), most)
    longest = max(steps, _LONG_EPOCH_STEPS)
    if steps_per_epoch <= longest:
        return SaveTimes(steps_per_epoch * math.ceil(steps / steps_per_epoch))
    part = math.ceil(steps_per_epoch / math.ceil(steps_per_epoch / longest))
    most_steps = _most_steps(config)
    part = most_steps * math.ceil(part / most_steps)
    return SaveTimes(steps_per_epoch, part if part < steps_per_epoch else 0)


def _most_steps(config: ResolvedConfig) -> int:
    """The most steps of a dispatch."""
    return config.steps_per_dispatch or steps_per_dispatch()


def steps_per_dispatch() -> int:
    """The default number of steps between two exchanges with the host, by platform."""
    return for_platform(_STEPS_PER_DISPATCH)


def dim_multiple() -> int:
    """The number that `dim` must be a multiple of on this platform."""
    return for_platform(_DIM_MULTIPLE)


def members_at_once(config: ResolvedConfig, mesh: Mesh | None) -> int:
    """The number of members that train side by side: one on a mesh or an accelerator."""
    if mesh is not None or platform() != "cpu":
        return 1
    return min(config.members_at_once, config.members)
