"""What is said of a memory: what was tried and found, or why nothing was tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.data.mapped import is_mapped
from snm.distributed.processes import has_several_processes
from snm.errors import counted
from snm.memory.sizes import MIN_POINTS
from snm.runs.events import Noted
from snm.runs.folder import RunFolder
from snm.runs.log.event_log import open_log
from snm.runs.schema import MemoryRecord
from snm.trainer.memory.trial import LEAST_ADJUSTED, memory_split

__all__ = ["never_adjusted", "never_tried", "noted", "summaries"]


def never_tried(config: Config, dataset: Dataset) -> str | None:
    """Why no memory is tried here that the settings ask for or allow, in one line; else None."""
    if config.memory == "off":
        return None
    if has_several_processes():
        return "memory: off, because it needs one process"
    if is_mapped(dataset.train.features.indices):
        return "memory: off, because the data take a large part of this machine's memory"
    return None


def never_adjusted(config: Config, dataset: Dataset) -> str | None:
    """Why no logit adjustment is tried here that the settings ask for, in one line; else None."""
    if config.logit_adjustment != "on" or config.memory == "off":
        return None
    if dataset.train.num_points < MIN_POINTS:
        return None  # `resolve` refuses an adjustment without a memory
    split = memory_split(config, dataset)
    points = 0 if split is None else len(split[1])
    if points >= LEAST_ADJUSTED:
        return None
    least = f"{counted(points, 'point')} could choose it, and at least {LEAST_ADJUSTED} must"
    return f"logit adjustment: not tried, since {least}"


def _of_memory(found: MemoryRecord) -> str:
    where = found.inherited_from
    if where is not None and not found.used:
        return f"memory: off, as for {where}, whose probabilities are taken over"
    cost = f"{found.bytes / 2**20:,.0f} MiB, {found.seconds:.1f} s"
    nearest = f"{found.settings.neighbors} nearest of {found.points:,} training points"
    if where is not None:
        return f"memory: {nearest}, as chosen for {where}, and its probabilities; {cost}"
    before, after = _shown(found.before), _shown(found.precision)
    points = counted(found.held_out, "point")
    what = f"P@1/3/5 {before} -> {after} on {points} that member 1 did not see"
    if not found.used:
        return f"memory: off, it does not surely pay (at best {what})"
    return f"memory: {nearest}, {what}; {cost}"


def summaries(found: MemoryRecord) -> list[str]:
    """What `try_memory` found, a line each: of the memory, and of an adjustment that is used."""
    lines = [_of_memory(found)]
    if (adjustment := found.adjustment) is not None:
        before, after = _shown(adjustment.before), _shown(adjustment.precision)
        why = f"P@1/3/5 {before} -> {after} on the same points"
        if found.inherited_from is not None:
            why = "as chosen there"
        lines.append(
            f"logit adjustment: the score of a label with n training points is lowered by "
            f"{adjustment.strength:.2g} log n, {why}"
        )
    return lines


def noted(folder: RunFolder, found: MemoryRecord, step: int) -> Iterator[Noted]:
    """Yields what `try_memory` tried, a line each, and keeps the lines in a log of their own.

    Args:
      folder: of the run.
      found: what `try_memory` returned.
      step: the last one.
    """
    lines = [Noted(step, line) for line in summaries(found)]
    with open_log(folder.path, "memory", step) as log:
        for one in lines:
            log.write(one)
    yield from lines


def _shown(precision: Sequence[float]) -> str:
    return " / ".join(f"{x:.1f}" for x in precision)
