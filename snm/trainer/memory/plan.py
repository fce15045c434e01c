"""Plans where the memory of a run comes from, before it trains; makes and writes it at the end."""

from __future__ import annotations

import dataclasses
from typing import Any

from numpy.typing import NDArray

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
from snm.system import disk
from snm.system.timing import part
from snm.trainer.memory.inherited import find_inherited_memory, inherit_memory
from snm.trainer.memory.trial import choose_memory, split_for_memory
from snm.trainer.start.warm_start import WarmStart

__all__ = ["MemoryPlan"]


@dataclasses.dataclass(frozen=True)
class MemoryPlan:
    """Whether a memory is tried on points that member 1 does not see, or inherited, or neither.

    Attributes:
      kept: int [n], ascending, the points that member 1 trains on; None if no memory is tried.
      inherits: whether the run starts from another one.
      inherited: the `memory.json` that it inherits from that run; None for nothing.
      note: a line for the user before the training, or None.
    """

    kept: NDArray[Any] | None = None
    inherits: bool = False
    inherited: MemoryRecord | None = None
    note: str | None = None

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
            return cls(inherits=True, inherited=inherited, note=note)
        split = split_for_memory(config, dataset)
        if split is not None:
            return cls(kept=split[0])
        note = (
            "memory of neighbours: not tried, since no point that could choose it has a label and "
            "a feature"
        )
        return cls(note=note if config.memory == "on" else None)

    def add_to_origin(self, origin: RunOrigin) -> RunOrigin:
        """The origin with the inherited memory, so that a resumed run needs no other run."""
        return dataclasses.replace(origin, inherited=self.inherited) if self.inherits else origin

    def is_carried_out(self, stored: StoredRun) -> bool:
        """Whether a run that ended has readable files of the memory that is planned."""
        if self.kept is None and self.inherited is None:
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
        folder, config = stored.folder, stored.config
        if self.kept is None and self.inherited is None:
            if self.inherits:
                for path in (folder.memory_record, folder.memory, folder.adjustment):
                    disk.remove(path)
            return None
        with part("memory"):
            disk.remove(folder.memory_record)
            if self.inherited is not None:
                chosen = inherit_memory(config, dataset, self.inherited, all_members)
            else:
                first_member = all_members
                if config.members > 1 or config.refit:  # else a second copy of the same tables
                    state = stored.member_before_refit(all_members.mesh)
                    first_member = dataclasses.replace(all_members, model=stored.model, state=state)
                chosen = choose_memory(config, dataset, first_member, all_members)
            if chosen.memory is None:
                disk.remove(folder.memory)
            else:
                save_memory(folder.memory, chosen.memory)
            if chosen.shifts is None:
                disk.remove(folder.adjustment)
            else:
                save_shifts(folder.adjustment, chosen.shifts)
            write_json(folder.memory_record, as_json(chosen.record))
        return chosen.record
