"""Loads a trained run as a predictor."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from jax.sharding import Mesh

from snm.checkpoints.store import Checkpoints
from snm.config.resolved import ResolvedConfig
from snm.data.formats.dispatch import read_names
from snm.data.id_space import IdSpace
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.memory.store import load_memory
from snm.model.from_config import make_model
from snm.model.inference import adjusted, join_as_read
from snm.model.model import Model, TrainState
from snm.model.placement import abstract_on, join_on_mesh
from snm.prediction.calibration import Calibration
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder, read_json
from snm.runs.manifest import manifest_path, read_manifest
from snm.runs.members import member_seed, phase_names
from snm.runs.schema import RunFacts
from snm.stores.copies import local

__all__ = [
    "assemble",
    "checkpoints_intact",
    "first_member_step",
    "ids_of_run",
    "is_exported",
    "load",
    "load_member",
    "used_checkpoints",
    "watched_member",
    "with_memory",
]


def load(run: str | Path, *, memory: bool = True, verify: bool = True) -> Predictor:
    """Loads a trained model from its run folder.

    Of an unfinished run, it loads the first member's best checkpoint so far, without a memory.

    Args:
      run: the run folder, or its address in a store.
      memory: also load what held-out points chose for the run, where it has that: a memory, a logit
        adjustment, and what makes scores probabilities; False is the model alone.
      verify: compare the files of the checkpoints with their checksums; False loads sooner, from a
        disk that is trusted. The other files are always compared.

    Raises:
      InputError: the folder is not a run, or the run has no checkpoint.
    """
    folder, config, facts, finished = _opened(run)
    names = _names(folder, facts)
    weighting = Weighting.load(folder.checked(folder.fitted_weighting))
    width = weighting.num_features
    if weighting.kind != config.weighting or width not in (None, facts["num_features"]):
        found = f"a weighting {weighting.kind} of {width} features"
        expected = f"{config.weighting} of {facts['num_features']}, as in config.toml and run.json"
        raise InputError(str(folder.fitted_weighting), found, expected)
    predictor = assemble(folder, config, facts, weighting, names, finished, verify=verify)
    return with_memory(predictor, folder) if memory and finished else predictor


def with_memory(predictor: Predictor, folder: RunFolder) -> Predictor:
    """The predictor with what held-out points chose for its run: memory, adjustment, calibration.

    Raises:
      InputError: a file of these is missing or damaged.
    """
    shifts = folder.read_adjustment(predictor.model.spec.num_labels)
    if shifts is not None:
        predictor = dataclasses.replace(predictor, state=adjusted(predictor.state, shifts))
    if not folder.has(folder.memory_record):
        return predictor
    record = folder.read_memory_record()
    if (curves := record.get("calibration")) is not None:
        predictor = dataclasses.replace(predictor, calibration=Calibration.read(curves))
    if not record["used"]:
        return predictor
    shape = {"num_features": predictor.model.num_features,
             "num_labels": predictor.model.spec.num_labels}  # fmt: skip
    return dataclasses.replace(
        predictor, memory=load_memory(folder.checked(folder.memory), **shape)
    )


def ids_of_run(run: str | Path) -> IdSpace:
    """What the feature and label ids of a run stand for.

    Raises:
      InputError: the folder is not a run.
    """
    folder, _, facts, _ = _opened(run)
    return IdSpace(
        str(run),
        facts["num_features"],
        facts["num_labels"],
        _names(folder, facts),
        facts["sha256"],
        folder.checked(folder.vectorizer) if folder.has(folder.vectorizer) else None,
    )


def _names(folder: RunFolder, facts: RunFacts) -> tuple[str, ...] | None:
    """The names of the labels, if there are any."""
    if not folder.has(folder.names):
        return None
    return read_names(folder.checked(folder.names), facts["num_labels"])


def load_member(run: str | Path, member: int, mesh: Mesh | None = None) -> tuple[Model, TrainState]:
    """Loads one member of a run, counted from 1; the last member if the run has fewer.

    Raises:
      InputError: the folder is not a run, or the run has no checkpoint.
    """
    folder, config, facts, finished = _opened(run)
    member = min(member, config.members if finished else 1)
    model = make_model(config, facts["num_features"], facts["num_labels"])
    return model, _member(folder, config, model, member, finished, mesh)


def assemble(folder: RunFolder, config: ResolvedConfig, facts: RunFacts, weighting: Weighting,
             names: tuple[str, ...] | None, finished: bool,
             mesh: Mesh | None = None, verify: bool = True,
             state: TrainState | None = None) -> Predictor:  # fmt: skip
    """Builds the predictor of a run from its checkpoints, on one device or on a mesh.

    Args:
      folder: the run folder.
      config: resolved settings.
      facts: the content of `run.json`.
      weighting: the fitted feature weighting.
      names: the names of the labels, or None.
      finished: whether the run is finished; the predictor then uses all members, else the first.
      mesh: the mesh to shard the parameters over, or None.
      verify: as in `load`.
      state: the parameters, where they are in memory; None reads them.

    Raises:
      InputError: a checkpoint is missing.
    """
    model = make_model(config, facts["num_features"], facts["num_labels"])
    texts = None
    if folder.has(folder.vectorizer):
        texts = Vectorizer.read(folder.checked(folder.vectorizer))
        if texts.num_features != model.num_features:
            expected = f"{model.num_features}, as in run.json"
            raise InputError(str(folder.vectorizer), f"{texts.num_features} features", expected)
    members = config.members if finished else 1
    if state is None:
        states = (_member(folder, config, model, member, finished, mesh, verify)
                  for member in range(1, members + 1))  # fmt: skip
        state = join_as_read(states, members) if mesh is None else join_on_mesh(list(states), mesh)
    model = dataclasses.replace(model, members=members)
    return Predictor(model, state, weighting, names, vectorizer=texts, mesh=mesh)


def watched_member(
    folder: RunFolder, config: ResolvedConfig, facts: RunFacts, mesh: Mesh | None = None
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


def checkpoints_intact(folder: RunFolder, config: ResolvedConfig) -> bool:
    """Whether the checkpoint of every member of a finished run is as it was written."""
    try:
        for member in range(1, config.members + 1):
            checkpoints, step = _checked(folder, config, member, finished=True)
            checkpoints.verify(step)
    except InputError:
        return False
    return True


def used_checkpoints(folder: RunFolder, config: ResolvedConfig) -> dict[str, list[int]]:
    """The checkpoints that predictions of a finished run are of: phase -> [step, seal].

    Raises:
      InputError: a checkpoint is missing or damaged.
    """
    found = {}
    for member in range(1, config.members + 1):
        phase, checkpoints, step = _best_of(folder, config, member, finished=True)
        found[phase] = [step, checkpoints.seal(step)]
    return found


def first_member_step(folder: RunFolder, config: ResolvedConfig) -> int:
    """The step of the checkpoint that predictions of an unfinished run are of.

    Raises:
      InputError: the first member has no checkpoint, or a damaged one.
    """
    return _best_of(folder, config, 1, finished=False)[2]


def is_exported(folder: Path) -> bool:
    """Whether a folder has files that `snm export` writes, and a run or a data set does not."""
    names = ("model.safetensors", "model.npz", "settings.toml")
    return any((folder / name).is_file() for name in names)


def _is_index(folder: Path) -> bool:
    """Whether a folder has what `snm export` writes of a search index."""
    with contextlib.suppress(InputError):
        manifest = read_json(folder / "manifest.json")
        return isinstance(manifest, dict) and "index" in manifest
    return False


def _opened(run: str | Path) -> tuple[RunFolder, ResolvedConfig, RunFacts, bool]:
    """The folder of a run, its settings, the content of `run.json`, and whether it is finished."""
    folder = RunFolder(local(run))
    if not folder.config.exists():
        found = "a file" if folder.path.exists() else "no such folder"
        if folder.path.is_dir():
            found = "no config.toml"
        if is_exported(folder.path):
            found += ", but files of `snm export`"
        expected = "the folder of a run (`snm train`)"
        if _is_index(folder.path):
            found, expected = "a search index", f"its run, with --index {run}"
        raise InputError(str(run), found, expected)
    config, facts, finished = folder.settings(), folder.read_facts(), folder.finished()
    if finished and folder.read_result().get("members", config.members) != config.members:
        found, expected = f"members = {config.members}", "as many as in result.json"
        raise InputError(str(folder.config), found, expected)
    return folder, config, facts, finished


def _member(folder: RunFolder, config: ResolvedConfig, model: Model, member: int,
            finished: bool, mesh: Mesh | None = None,
            verify: bool = True) -> TrainState:  # fmt: skip
    """Parameters of a member's best checkpoint, or of its last where nothing was watched."""
    checkpoints, step = _checked(folder, config, member, finished)
    return checkpoints.load(step, abstract_on(mesh, model), verify=verify)


def _checked(
    folder: RunFolder, config: ResolvedConfig, member: int, finished: bool
) -> tuple[Checkpoints, int]:
    """The checkpoints of a member, and the step of the best one, which is of this run and result.

    Raises:
      InputError: there is none, or one of another seed, or of another result.
    """
    phase, checkpoints, step = _best_of(folder, config, member, finished)
    note = checkpoints.read(step)
    seed = member_seed(config.seed, member)
    if note.about.get("seed", seed) != seed:
        found = f"a checkpoint of seed {note.about['seed']}"
        raise InputError(str(checkpoints.path(step)), found, f"{seed}, that of member {member}")
    recorded = read_manifest(folder.path)
    if recorded is None and "manifest" in note.about:
        expected = "that of the run: the same `snm train` command makes it anew"
        raise InputError(str(manifest_path(folder.path)), "no such file", expected)
    if finished and recorded is not None and recorded.finished is not None:
        wanted = recorded.finished.get(phase)
        if wanted != [step, checkpoints.seal(step)]:
            expected = "the one that result.json is of: the same `snm train` command makes it anew"
            if wanted is not None and wanted[0] != step:
                where, found = checkpoints.path(wanted[0]), "no whole checkpoint"
            else:
                where, found = checkpoints.path(step), "another checkpoint"
            raise InputError(str(where), found, expected)
    return checkpoints, step


def _best_of(
    folder: RunFolder, config: ResolvedConfig, member: int, finished: bool
) -> tuple[str, Checkpoints, int]:
    """The phase of a member that counts, its checkpoints, and the step of the best one."""
    train, refit = phase_names(member)
    checkpoints = folder.checkpoints(config.keep_checkpoints, train)
    phase, step = train, checkpoints.best()
    # An unfinished refit is worth less than the checkpoint before it.
    if config.refit and finished:
        again = folder.checkpoints(config.keep_checkpoints, refit)
        if (last := again.latest()) is not None:
            phase, checkpoints, step = refit, again, last
    if step is None:
        found = "no checkpoint" + f" of member {member}" * (config.members > 1)
        expected = "one: the same `snm train` command goes on"
        raise InputError(str(folder.path), found, expected)
    return phase, checkpoints, step
