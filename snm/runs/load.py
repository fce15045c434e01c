"""Loads a trained run as a predictor."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from snm.config.resolved import ResolvedConfig, read_resolved
from snm.data.formats.dispatch import read_names
from snm.data.id_space import IdSpace
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.memory.store import load_memory
from snm.model.from_config import make_model
from snm.model.inference import join
from snm.model.model import Model, TrainState
from snm.model.placement import abstract_on, join_on_mesh
from snm.model.predictor import Predictor
from snm.runs.folder import RunFolder, phase_names, read_json

__all__ = ["assemble", "checkpoints_intact", "ids_of_run", "load", "load_member", "watched_member",
           "with_memory"]  # fmt: skip


def load(run: str | Path, *, memory: bool = True) -> Predictor:
    """Loads a trained model from its run folder.

    Of an unfinished run, it loads the first member's best checkpoint so far, without a memory.

    Args:
      run: the run folder.
      memory: also load the run's memory, if it has one; False is the model alone.

    Raises:
      InputError: the folder is not a run, or the run has no checkpoint.
    """
    folder, config, facts = _opened(run)
    names = read_names(folder.names, facts["num_labels"]) if folder.names.exists() else None
    weighting = Weighting.load(folder.fitted_weighting)
    finished = folder.result.exists()
    predictor = assemble(folder, config, facts, weighting, names, finished)
    return with_memory(predictor, folder) if memory and finished else predictor


def with_memory(predictor: Predictor, folder: RunFolder) -> Predictor:
    """The predictor with the memory of its run, if one paid.

    Raises:
      InputError: a file of the memory is missing or damaged.
    """
    if not folder.memory_trial.exists() or not read_json(folder.memory_trial)["used"]:
        return predictor
    shape = {"num_features": predictor.model.num_features,
             "num_labels": predictor.model.head.num_labels}  # fmt: skip
    return dataclasses.replace(predictor, memory=load_memory(folder.memory, **shape))


def ids_of_run(run: str | Path) -> IdSpace:
    """What the feature and label ids of a run stand for.

    Raises:
      InputError: the folder is not a run.
    """
    folder, _, facts = _opened(run)
    return IdSpace(
        str(run),
        facts["num_features"],
        facts["num_labels"],
        read_names(folder.names, facts["num_labels"]) if folder.names.exists() else None,
        facts["sha256"],
        folder.vectorizer if folder.vectorizer.exists() else None,
    )


def load_member(run: str | Path, member: int, mesh: Mesh | None = None) -> tuple[Model, TrainState]:
    """Loads one member of a run, counted from 1; the last member if the run has fewer.

    Raises:
      InputError: the folder is not a run, or the run has no checkpoint.
    """
    folder, config, facts = _opened(run)
    finished = folder.result.exists()
    member = min(member, config.members if finished else 1)
    model = make_model(config, facts["num_features"], facts["num_labels"])
    return model, _member(folder, config, model, member, finished, mesh)


def assemble(folder: RunFolder, config: ResolvedConfig, facts: dict[str, Any], weighting: Weighting,
             names: tuple[str, ...] | None, finished: bool,
             mesh: Mesh | None = None) -> Predictor:  # fmt: skip
    """Builds the predictor of a run from its checkpoints, on one device or on a mesh.

    Args:
      folder: the run folder.
      config: resolved settings.
      facts: the content of `run.json`.
      weighting: the fitted feature weighting.
      names: the names of the labels, or None.
      finished: whether the run is finished; the predictor then uses all members, else the first.
      mesh: the mesh to shard the parameters over, or None.

    Raises:
      InputError: a checkpoint is missing.
    """
    model = make_model(config, facts["num_features"], facts["num_labels"])
    members = config.members if finished else 1
    states = [_member(folder, config, model, member, finished, mesh)
              for member in range(1, members + 1)]  # fmt: skip
    model = dataclasses.replace(model, members=members)
    state = join(states) if mesh is None else join_on_mesh(states, mesh)
    texts = Vectorizer.read(folder.vectorizer) if folder.vectorizer.exists() else None
    return Predictor(model, state, weighting, names, vectorizer=texts, mesh=mesh)


def watched_member(
    folder: RunFolder, config: ResolvedConfig, facts: dict[str, Any], mesh: Mesh | None = None
) -> tuple[Model, TrainState]:
    """The first member as it was trained without the held-out points, before any refit.

    Args:
      folder: the run folder.
      config: resolved settings.
      facts: the content of `run.json`.
      mesh: as in `assemble`.
    """
    model = make_model(config, facts["num_features"], facts["num_labels"])
    return model, _member(folder, config, model, 1, finished=False, mesh=mesh)


def checkpoints_intact(
    folder: RunFolder, config: ResolvedConfig, model: Model, mesh: Mesh | None
) -> bool:
    """Whether the checkpoint of every member of a finished run can be read as it was written."""
    try:
        for member in range(1, config.members + 1):
            _member(folder, config, model, member, finished=True, mesh=mesh)
    except InputError:
        return False
    return True


def _opened(run: str | Path) -> tuple[RunFolder, ResolvedConfig, dict[str, Any]]:
    folder = RunFolder(Path(run))
    if not folder.config.exists():
        raise InputError(str(run), "no config.toml", "the folder of a run (`snm train`)")
    return folder, read_resolved(folder.config), read_json(folder.facts)


def _member(folder: RunFolder, config: ResolvedConfig, model: Model, member: int,
            finished: bool, mesh: Mesh | None = None) -> TrainState:  # fmt: skip
    """Parameters of a member's best checkpoint, or of its last where nothing was watched."""
    train, refit = phase_names(member)
    checkpoints = folder.checkpoints(config.keep_checkpoints, train)
    step = checkpoints.best()
    # An unfinished refit is worth less than the checkpoint before it.
    if config.refit and finished:
        again = folder.checkpoints(config.keep_checkpoints, refit)
        if again.latest() is not None:
            checkpoints, step = again, again.latest()
    if step is None:
        raise InputError(str(folder.path), "no checkpoint", "a run that has saved one")
    return checkpoints.load(step, abstract_on(mesh, model))
