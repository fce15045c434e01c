"""Opens the folder of a run, and loads its model as a predictor."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from pathlib import Path

from jax.sharding import Mesh

from snm.config.resolved import ResolvedConfig
from snm.data.formats.line_files import read_names
from snm.data.id_space import IdSpace
from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Kind, Weighting
from snm.errors import InputError
from snm.memory.memory import Memory
from snm.memory.store import load_memory
from snm.model.from_config import make_model
from snm.model.inference import join_members_one_by_one
from snm.model.model import Model, TrainState
from snm.model.placement import join_members_on_mesh
from snm.prediction.calibration import NOT_LOADED, UNCALIBRATED
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder, read_json
from snm.runs.member_checkpoints import MemberCheckpoints
from snm.runs.schema import MemoryRecord, RunOrigin
from snm.stores.copies import local_copy

__all__ = ["StoredRun", "has_export_files", "load", "read_vectorizer", "read_weighting"]


def load(run: str | Path, *, memory: bool = True, verify: bool = True) -> Predictor:
    """Loads a trained model from its run folder.

    If the run is unfinished, it loads the best checkpoint so far of member 1, without a memory.

    Args:
      run: the run folder, or its address in a store.
      memory: also load what held-out points chose, if anything: a memory, a logit adjustment, and
        the calibration; False loads the model alone.
      verify: compare the files of the checkpoints with their checksums; False loads faster, from a
        trusted disk. The other files are always compared.

    Raises:
      InputError: the folder is not a run, or the run has no checkpoint.
    """
    return StoredRun.open(run).load(memory=memory, verify=verify)


def has_export_files(folder: Path) -> bool:
    """Whether a folder was written by `snm export`: it has files that no run or data set has."""
    names = ("model.safetensors", "model.npz", "settings.toml")
    return any((folder / name).is_file() for name in names)


def read_weighting(path: Path, kind: Kind, num_features: int) -> Weighting:
    """Reads the fitted weighting of a model.

    Args:
      path: of its file.
      kind: of the model's settings.
      num_features: number of features of the model.

    Raises:
      InputError: the file is damaged, or it is of another model.
    """
    weighting = Weighting.load(path)
    width = weighting.num_features
    if weighting.kind != kind or width not in (None, num_features):
        found = f"a weighting {weighting.kind} of {width or 'any'} features"
        raise InputError(str(path), found, f"{kind} of {num_features}, as the model has")
    return weighting


def read_vectorizer(path: Path, num_features: int) -> Vectorizer:
    """Reads the vectorizer of a model; see `read_weighting`."""
    texts = Vectorizer.read(path)
    if texts.num_features != num_features:
        found = f"{texts.num_features} features"
        raise InputError(str(path), found, f"{num_features}, as the model has")
    return texts


@dataclasses.dataclass(frozen=True, eq=False)
class StoredRun:
    """A run in its folder.

    Attributes:
      folder: of the run.
      config: its settings.
      origin: the content of `run.json`.
      all_trained: whether all members are trained. If so, all of them predict; if not, member 1
        predicts alone, without a refit.
    """

    folder: RunFolder
    config: ResolvedConfig
    origin: RunOrigin
    all_trained: bool

    @classmethod
    def open(cls, run: str | Path) -> StoredRun:
        """Opens a run: reads its settings and its origin, but no parameters.

        Args:
          run: the run folder, or its address in a store.

        Raises:
          InputError: the folder is not a run, or a file of it is damaged.
        """
        folder = RunFolder(local_copy(run))
        if not folder.config.exists():
            raise InputError(str(run), *_describe_other_folder(folder.path, run))
        config, origin, finished = folder.settings(), folder.read_origin(), folder.finished()
        if finished and folder.read_result()["members"] != config.members:
            found, expected = f"members = {config.members}", "as many as in result.json"
            raise InputError(str(folder.config), found, expected)
        return cls(folder, config, origin, finished)

    def load(self, *, memory: bool = True, verify: bool = True) -> Predictor:
        """The trained model; see `load` of this module.

        Raises:
          InputError: the run has no checkpoint, or a file of it is missing or damaged.
        """
        names, weighting = self.label_names(), self.weighting()
        predictor = self.predictor(weighting, names, verify=verify)
        if memory and self.all_trained:
            predictor = self.with_memory(predictor)
        if predictor.calibration is not None:
            return predictor
        has_record = self.all_trained and self.folder.has(self.folder.memory_record)
        reason = UNCALIBRATED if memory or not has_record else NOT_LOADED
        return dataclasses.replace(predictor, why_uncalibrated=reason)

    @functools.cached_property
    def model(self) -> Model:
        """The model of one member."""
        return make_model(self.config, self.origin.num_features, self.origin.num_labels)

    @property
    def checkpoints(self) -> MemberCheckpoints:
        """The checkpoints with which the members predict."""
        return MemberCheckpoints(self.folder, self.config, self.all_trained)

    @property
    def members(self) -> int:
        """The number of members that predict."""
        return self.checkpoints.members

    def ids(self) -> IdSpace:
        """The feature and label ids of the run, with the names of the labels and the vectorizer.

        Raises:
          InputError: a file of the run is missing or damaged.
        """
        folder, origin = self.folder, self.origin
        return IdSpace(
            str(folder.path),
            origin.num_features,
            origin.num_labels,
            self.label_names(),
            origin.sha256,
            folder.checked(folder.vectorizer) if folder.has(folder.vectorizer) else None,
        )

    def label_names(self) -> tuple[str, ...] | None:
        """The names of the labels, if there are any.

        Raises:
          InputError: the file is missing or damaged, or has another number of names.
        """
        folder = self.folder
        if not folder.has(folder.names):
            return None
        return read_names(folder.checked(folder.names), self.origin.num_labels)

    def weighting(self) -> Weighting:
        """The fitted feature weighting.

        Raises:
          InputError: the file is missing or damaged, or of another run.
        """
        path = self.folder.checked(self.folder.fitted_weighting)
        return read_weighting(path, self.config.weighting, self.origin.num_features)

    def _read_vectorizer(self) -> Vectorizer | None:
        """The vectorizer of texts, if there is one."""
        folder = self.folder
        if not folder.has(folder.vectorizer):
            return None
        return read_vectorizer(folder.checked(folder.vectorizer), self.origin.num_features)

    def member(self, number: int, mesh: Mesh | None = None, verify: bool = True) -> TrainState:
        """One member: the parameters of its best checkpoint, or of its last without validation.

        Args:
          number: of the member, counted from 1; the last one if there are fewer.
          mesh: the mesh to shard the parameters over, or None.
          verify: as in `load`.

        Raises:
          InputError: no checkpoint, or one of another seed or another result.
        """
        return self.checkpoints.load(number, self.model, mesh, verify)

    def member_before_refit(self, mesh: Mesh | None = None) -> TrainState:
        """Member 1 as it was trained without the held-out points, before any refit.

        Args:
          mesh: as in `member`.
        """
        return dataclasses.replace(self, all_trained=False).member(1, mesh)

    def predictor(
        self,
        weighting: Weighting,
        names: tuple[str, ...] | None,
        *,
        mesh: Mesh | None = None,
        verify: bool = True,
        state: TrainState | None = None,
    ) -> Predictor:
        """The predictor from the checkpoints, on one device or on a mesh; without a memory.

        Args:
          weighting: the fitted feature weighting.
          names: the names of the labels, or None.
          mesh: the mesh to shard the parameters over, or None.
          verify: as in `load`.
          state: the parameters, if they are in memory; None reads them.

        Raises:
          InputError: a checkpoint is missing, or the vectorizer is of another run.
        """
        texts, members = self._read_vectorizer(), self.members
        if state is None:
            states = (self.member(number, mesh, verify) for number in range(1, members + 1))
            state = (
                join_members_one_by_one(states, members)
                if mesh is None
                else join_members_on_mesh(list(states), mesh)
            )
        model = dataclasses.replace(self.model, members=members)
        return Predictor(model, state, weighting, names, vectorizer=texts, mesh=mesh)

    def with_memory(self, predictor: Predictor) -> Predictor:
        """Adds what held-out points chose: the memory, the logit adjustment and the calibration.

        Raises:
          InputError: a file of these is missing or damaged.
        """
        folder = self.folder
        shifts = folder.read_adjustment(self.origin.num_labels)
        memory = calibration = None
        if folder.has(folder.memory_record):
            record = folder.read_memory_record()
            memory, calibration = self.read_memory(record), record.calibration
        return predictor.with_choice(memory, shifts, calibration)

    def read_memory(self, record: MemoryRecord) -> Memory | None:
        """The stored training points, if the run uses a memory of them.

        Args:
          record: the content of `memory.json`.

        Raises:
          InputError: the file is missing or damaged.
        """
        if not record.used:
            return None
        return load_memory(
            self.folder.checked(self.folder.memory),
            num_features=self.origin.num_features,
            num_labels=self.origin.num_labels,
        )


def _describe_other_folder(folder: Path, run: str | Path) -> tuple[str, str]:
    """What was found instead of a run, and what is expected, for an `InputError`."""
    found = "a file" if folder.exists() else "no such folder"
    if folder.is_dir():
        found = "no config.toml"
    if has_export_files(folder):
        found += ", but files of `snm export`"
    if _is_search_index(folder):
        return "a search index", f"its run, with --index {run}"
    return found, "the folder of a run (`snm train`)"


def _is_search_index(folder: Path) -> bool:
    """Whether a folder is a search index of `snm export`."""
    with contextlib.suppress(InputError):
        manifest = read_json(folder / "manifest.json")
        return isinstance(manifest, dict) and "index" in manifest
    return False
