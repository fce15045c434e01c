"""Loads a trained run as a predictor."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from jax.sharding import Mesh

from snm.config.settings import Config, read_config
from snm.data.formats.dispatch import read_names
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.model.from_config import make_model
from snm.model.inference import join
from snm.model.model import Model, TrainState
from snm.model.placement import abstract_on, joined
from snm.model.predictor import Predictor
from snm.runs.folder import RunFolder, phase_names, read_json

__all__ = ["assemble", "load", "load_member", "whole"]


def _member(folder: RunFolder, config: Config, model: Model, member: int,
            finished: bool, mesh: Mesh | None = None) -> TrainState:  # fmt: skip
    """Loads a member's best checkpoint, or its last one if the run had no validation points."""
    train, refit = phase_names(member)
    checkpoints = folder.checkpoints(config.keep_checkpoints, train)
    step = checkpoints.best()
    # A refit starts from new parameters: until it is finished, the first training is better.
    if config.refit and finished:
        refitted = folder.checkpoints(config.keep_checkpoints, refit)
        if refitted.latest() is not None:
            checkpoints, step = refitted, refitted.latest()
    if step is None:
        raise InputError(str(folder.path), "no checkpoint", "a run that has saved one")
    return checkpoints.load(step, abstract_on(mesh, model))


def whole(folder: RunFolder, config: Config, model: Model, mesh: Mesh | None) -> bool:
    """Whether the checkpoints of all members of a finished run are intact."""
    assert config.members != "auto"  # resolved
    try:
        for member in range(1, config.members + 1):
            _member(folder, config, model, member, finished=True, mesh=mesh)
    except InputError:
        return False
    return True


def load(run: str | Path) -> Predictor:
    """Loads a trained model from its run folder.

    Of an unfinished run, it loads the first member's best checkpoint so far.

    Raises:
      InputError: the folder is not a run, or the run has no checkpoint.
    """
    folder, config, facts = _opened(run)
    names = read_names(folder.names, facts["num_labels"]) if folder.names.exists() else None
    weighting = Weighting.load(folder.fitted_weighting)
    return assemble(folder, config, facts, weighting, names, folder.result.exists())


def load_member(run: str | Path, member: int, mesh: Mesh | None = None) -> tuple[Model, TrainState]:
    """Loads one member of a run, counted from 1; the last member if the run has fewer.

    Raises:
      InputError: the folder is not a run, or the run has no checkpoint.
    """
    folder, config, facts = _opened(run)
    finished = folder.result.exists()
    assert config.members != "auto"  # resolved
    member = min(member, config.members if finished else 1)
    model = make_model(config, facts["num_features"], facts["num_labels"], 1)
    return model, _member(folder, config, model, member, finished, mesh)


def _opened(run: str | Path) -> tuple[RunFolder, Config, dict[str, Any]]:
    folder = RunFolder(Path(run))
    if not folder.config.exists():
        raise InputError(str(run), "no config.toml", "the folder of a run (`snm train`)")
    config = read_config(folder.config)
    # Old runs do not have the setting; they have one member.
    members = 1 if config.members == "auto" else config.members
    return folder, dataclasses.replace(config, members=members), read_json(folder.facts)


def assemble(folder: RunFolder, config: Config, facts: dict[str, Any], weighting: Weighting,
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
    model = make_model(config, facts["num_features"], facts["num_labels"], 1)
    assert config.members != "auto"  # resolved
    members = config.members if finished else 1
    states = [_member(folder, config, model, member, finished, mesh)
              for member in range(1, members + 1)]  # fmt: skip
    model = dataclasses.replace(model, members=members)
    state = join(states) if mesh is None else joined(states, mesh)
    texts = Vectorizer.read(folder.vectorizer) if folder.vectorizer.exists() else None
    return Predictor(model, state, weighting, names, vectorizer=texts, mesh=mesh)
