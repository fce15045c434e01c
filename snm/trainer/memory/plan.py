"""Plans where the memory of a run comes from, before it trains; makes and writes it at the end."""

from __future__ import annotations

import dataclasses

from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset
from snm.errors import InputError
from snm.memory.adjustment import save_shifts
from snm.memory.store import save_memory
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder, write_json
from snm.runs.schema import MemoryRecord, RunOrigin
from snm.runs.stored_run import StoredRun
from snm.runs.typed_json import as_json
from snm.system.files import disk
from snm.system.timing import part
from snm.text import counted
from snm.trainer.memory.inherited import find_inherited_memory, inherit_memory
from snm.trainer.memory.trial import (
    MIN_ADJUSTMENT_POINTS,
    ChosenMemory,
    MemorySplit,
    choose_memory,
    split_for_memory,
)
from snm.trainer.start.warm_start import WarmStart

__all__ = ["MemoryPlan"]


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Whether a memory is tried on points that member 1 does not see, or inherited, or neither.

    Attributes:
      split: the points that choose a memory, and those that member 1 trains on; or None.
      inherited: the `memory.json` that the run inherits from the one that it starts from; or None.
      notes: lines for the user before the training.
    """

    split: MemorySplit | None = None
    inherited: MemoryRecord | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        folder: RunFolder,
        config: ResolvedConfig,
        dataset: Dataset,
        start: WarmStart | None,
        origin: RunOrigin,
    ) -> MemoryPlan:
        """Plans what to try, or what to inherit.

        Args:
          folder: of the run.
          config: its settings.
          dataset: as loaded.
          start: the run that it starts from, or None.
          origin: of the run; it names that one.

        Raises:
          InputError: a damaged file of the run that it starts from.
        """
        if start is not None:
            inherited, note = find_inherited_memory(folder, config, start, origin)
            return cls(inherited=inherited, notes=() if note is None else (note,))
        split = split_for_memory(config, dataset)
        notes = []
        if config.memory == "on" and split is None:
            notes.append(
                "memory of neighbours: not tried, since no point that could choose it has a label "
                "and a feature"
            )
        points = 0 if split is None else len(split.held)
        asked = config.logit_adjustment == "on" and "logit_adjustment" not in origin.given
        if asked and points < MIN_ADJUSTMENT_POINTS:
            notes.append(
                f"logit adjustment: not tried, since {counted(points, 'point')} could choose it, "
                f"and at least {MIN_ADJUSTMENT_POINTS} must"
            )
        return cls(split, notes=tuple(notes))

    @property
    def is_planned(self) -> bool:
        """Whether a memory is tried or inherited."""
        return self.split is not None or self.inherited is not None

    def is_carried_out(self, stored: StoredRun) -> bool:
        """Whether a run that ended has readable files of the memory that is planned."""
        if not self.is_planned:
            return True
        try:
            stored.read_memory(stored.folder.read_memory_record())
            stored.folder.read_adjustment(stored.origin.num_labels)
        except InputError:
            return False
        return True

    def carry_out(
        self, stored: StoredRun, dataset: Dataset, all_members: Predictor
    ) -> MemoryRecord | None:
        """Tries or inherits a memory, and writes its files.

        These are `memory.json`, `memory.npz` if a memory pays, and `adjustment.npy` if a logit
        adjustment does. Files of an earlier end of the run belong to other parameters: they go.

        Args:
          stored: the run, whose members are trained.
          dataset: as loaded.
          all_members: their predictor.

        Returns:
          The content of `memory.json`, or None if no memory was tried or inherited.
        """
        folder = stored.folder
        if self.is_planned or stored.origin.warm_start is not None:
            for path in (folder.memory_record, folder.memory, folder.adjustment):
                disk.remove(path)
        if not self.is_planned:
            return None
        with part("memory"):
            chosen = self._choose(stored, dataset, all_members)
            if chosen.memory is not None:
                save_memory(folder.memory, chosen.memory)
            if chosen.shifts is not None:
                save_shifts(folder.adjustment, chosen.shifts)
            write_json(folder.memory_record, as_json(chosen.record))
        return chosen.record

    def _choose(self, stored: StoredRun, dataset: Dataset, all_members: Predictor) -> ChosenMemory:
        """Inherits or tries a memory; one of the two is planned."""
        config = stored.config
        if self.inherited is not None:
            return inherit_memory(config, dataset, self.inherited, all_members)
        assert self.split is not None
        first_member = all_members
        if config.members > 1 or config.refit:  # else a second copy of the same tables
            state = stored.member_before_refit(all_members.mesh)
            first_member = dataclasses.replace(all_members, model=stored.model, state=state)
        return choose_memory(config, dataset, self.split, first_member, all_members)
