"""A trained run as a predictor."""

from __future__ import annotations

import dataclasses
import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any
import jax
import numpy as np
from jax.sharding import Mesh
from snm.checkpoints.store import Checkpoints
from snm.model.from_config import (make_model)
from snm.config.settings import Config, read_config, write_config
from snm.data.formats.dispatch import read_names
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.model.placement import (abstract_on, joined)
from snm.errors import InputError
from snm.model.model import (Model, TrainState)
from snm.model.inference import (join)
from snm.model.predictor import Predictor
from snm.system.files import write_whole
from snm.system.locks import LOCK
from snm.system.memory import peak_memory
from snm.runs.folder import RunFolder, phase_names, read_json

__all__ = ["assemble", "load", "load_member", "whole"]


def _member(folder: RunFolder, config: Config, model: Model, member: int,
            finished: bool, mesh: Mesh | None = None) -> TrainState:  # fmt: skip
    """Parameters of a member's best checkpoint, or of its last where nothing was watched."""
    train, refit = phase_names(member)
    checkpoints = folder.checkpoints(config.keep_checkpoints, train)
    step = checkpoints.best()
    # A refit that is not over yet is worth less than what it starts anew from.
    if config.refit and finished:
        again = folder.checkpoints(config.keep_checkpoints, refit)
        if again.latest() is not None:
            checkpoints, step = again, again.latest()
    if step is None:
        raise InputError(str(folder.path), "no checkpoint", "a run that has saved one")
    return checkpoints.load(step, abstract_on(mesh, model))


def whole(folder: RunFolder, config: Config, model: Model, mesh: Mesh | None) -> bool:
    """Whether what a finished run is made of (each member's checkpoint) is what was written."""
    assert config.members != "auto"  # resolved
    try:
        for member in range(1, config.members + 1):
            _member(folder, config, model, member, finished=True, mesh=mesh)
    except InputError:
        return False
    return True


def load(run: str | Path) -> Predictor:
    """A trained model, from its run folder; of a run that is not over, its first member so far.

    Raises:
      InputError: no run, or none that has saved a checkpoint yet.
    """
    folder, config, facts = _opened(run)
    names = read_names(folder.names, facts["num_labels"]) if folder.names.exists() else None
    weighting = Weighting.load(folder.fitted_weighting)
    return assemble(folder, config, facts, weighting, names, folder.result.exists())


def load_member(run: str | Path, member: int, mesh: Mesh | None = None) -> tuple[Model, TrainState]:
    """One member of a run, counted from 1; its last where it has fewer.

    Raises:
      InputError: no run, or none that has saved a checkpoint yet.
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
    # Runs of before there were members have one.
    members = 1 if config.members == "auto" else config.members
    return folder, dataclasses.replace(config, members=members), read_json(folder.facts)


def assemble(folder: RunFolder, config: Config, facts: dict[str, Any], weighting: Weighting,
             names: tuple[str, ...] | None, finished: bool,
             mesh: Mesh | None = None) -> Predictor:  # fmt: skip
    """The predictor of a run's checkpoints, all members joined where the run is over.

    It is on one device, or spread over a mesh.

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
