"""Finds, checks and reads the checkpoints with which the members of a run predict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

from jax.sharding import Mesh

from snm.checkpoints.manifest import DamagedError
from snm.checkpoints.store import Checkpoints
from snm.config.resolved import ResolvedConfig
from snm.distributed.processes import has_several_processes
from snm.errors import InputError
from snm.model.model import Model, TrainState
from snm.model.placement import abstract_state_on
from snm.runs.folder import RunFolder
from snm.runs.manifest import read_manifest
from snm.runs.members import member_seed, refit_phase, train_phase

__all__ = ["MemberCheckpoints"]

Result = TypeVar("Result")

_MAX_TRIES = 5  # while the run trains; the first try is slow, because it imports orbax


@dataclasses.dataclass(frozen=True)
class MemberCheckpoints:
    """The checkpoints with which the members of a run predict.

    That is the last checkpoint of the refit, or else the best one of the training.

    Attributes:
      folder: the run.
      config: its settings.
      all_trained: whether all members are trained; if not, member 1 predicts alone.
    """

    folder: RunFolder
    config: ResolvedConfig
    all_trained: bool

    @property
    def members(self) -> int:
        """The number of members that predict."""
        return self.config.members if self.all_trained else 1

    def load(
        self, member: int, model: Model, mesh: Mesh | None = None, verify: bool = True
    ) -> TrainState:
        """Reads the parameters of a member.

        Args:
          member: its number, counted from 1; the last one if there are fewer.
          model: the model of one member.
          mesh: the mesh to shard the parameters over, or None.
          verify: whether to compare the files with their checksums.

        Raises:
          InputError: there is no checkpoint, or it is damaged, or of another seed or result.
        """

        def read() -> TrainState:
            checkpoints, step = self._find_checked(min(member, self.members))
            state: TrainState = checkpoints.load(
                step, abstract_state_on(mesh, model), verify=verify
            )
            return state

        return _retry_while_training(read)

    def step(self, member: int) -> int:
        """The step of the checkpoint of a member.

        Raises:
          InputError: the member has no checkpoint, or a damaged one.
        """
        return _retry_while_training(lambda: self._find(member)[2])

    def are_intact(self) -> bool:
        """Whether the checkpoints of all members are present and undamaged."""
        try:
            for member in range(1, self.members + 1):
                checkpoints, step = self._find_checked(member)
                checkpoints.verify(step)
        except InputError:
            return False
        return True

    def seals(self) -> dict[str, list[int]]:
        """The checkpoints of all members: phase -> [step, seal].

        Raises:
          InputError: a checkpoint is missing or damaged.
        """
        seals = {}
        for member in range(1, self.members + 1):
            phase, checkpoints, step = self._find(member)
            seals[phase] = [step, checkpoints.seal(step)]
        return seals

    def _find_checked(self, member: int) -> tuple[Checkpoints, int]:
        """The checkpoints of a member and the step that predicts, checked to be of this run.

        Raises:
          InputError: there is none, or its seed or result is another.
        """
        phase, checkpoints, step = self._find(member)
        note = checkpoints.read(step)
        seed = member_seed(self.config.seed, member)
        if note.about["seed"] != seed:
            found = f"a checkpoint of seed {note.about['seed']}"
            raise InputError(str(checkpoints.path(step)), found, f"{seed}, that of member {member}")
        manifest = read_manifest(self.folder.path)
        if self.all_trained and manifest is not None and manifest.finished is not None:
            recorded = manifest.finished.get(phase)
            if recorded != [step, checkpoints.seal(step)]:
                expected = (
                    "the one that result.json is of: the same `snm train` command makes it anew"
                )
                if recorded is not None and recorded[0] != step:
                    where, found = checkpoints.path(recorded[0]), "no whole checkpoint"
                else:
                    where, found = checkpoints.path(step), "another checkpoint"
                raise InputError(str(where), found, expected)
        return checkpoints, step

    def _find(self, member: int) -> tuple[str, Checkpoints, int]:
        """The phase with which a member predicts, its checkpoints, and the step that predicts."""
        folder, config = self.folder, self.config
        phase = train_phase(member)
        checkpoints = folder.checkpoints(config.keep_checkpoints, phase)
        step = checkpoints.best()
        # An unfinished refit is worse than the checkpoint before it.
        if config.refit and self.all_trained:
            refit = refit_phase(member)
            refit_checkpoints = folder.checkpoints(config.keep_checkpoints, refit)
            if (last := refit_checkpoints.latest()) is not None:
                phase, checkpoints, step = refit, refit_checkpoints, last
        if step is None:
            found = "no checkpoint" + f" of member {member}" * (config.members > 1)
            expected = "one: the same `snm train` command goes on"
            raise InputError(str(folder.path), found, expected)
        return phase, checkpoints, step


def _retry_while_training(read: Callable[[], Result]) -> Result:
    """Calls `read` again if a training deletes the checkpoint that it has found.

    The next call finds a newer checkpoint.
    """
    for _ in range(_MAX_TRIES - 1):
        try:
            return read()
        except (DamagedError, FileNotFoundError) as error:
            # Several processes read together, and must all find the same checkpoint.
            if has_several_processes() or (isinstance(error, DamagedError) and error.path.exists()):
                raise
    return read()
