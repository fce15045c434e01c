"""Notes for the user on the memory: what was tried with which result, or why nothing was tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.data.mapped import is_mapped
from snm.distributed.processes import has_several_processes
from snm.runs.events import Noted
from snm.runs.folder import RunFolder
from snm.runs.log.event_log import open_log
from snm.runs.schema import MemoryRecord
from snm.text import counted, format_bytes

__all__ = ["log_memory_notes", "why_no_memory"]


def why_no_memory(config: Config, dataset: Dataset) -> str | None:
    """A note why no memory is tried although the settings allow or ask for one; else None."""
    if config.memory == "off":
        return None
    if has_several_processes():
        return "memory of neighbours: not tried, because it needs one process"
    if is_mapped(dataset.train.features.indices):
        return "memory of neighbours: not tried, because the data take a large part of the RAM"
    return None


def _format_memory(record: MemoryRecord) -> str:
    where = record.inherited_from
    if where is not None and not record.used:
        return f"memory of neighbours: not used, as in {where}, whose probabilities are taken over"
    cost = f"{format_bytes(record.bytes)}, {record.seconds:.1f} s"
    nearest = f"{record.settings.neighbors} nearest of {record.points:,} training points"
    if where is not None:
        chosen = f"as chosen for {where}, with its probabilities"
        return f"memory of neighbours: used, {nearest}, {chosen}; {cost}"
    without, with_votes = _format_precision(record.before), _format_precision(record.precision)
    points = counted(record.held_out, "held-out point")
    precision = f"P@1/3/5 on {points} {without} without, {with_votes} with"
    if not record.used:
        why = "the gain on held-out points is not above two standard errors"
        return f"memory of neighbours: not used, as {why}; at best, {precision}"
    return f"memory of neighbours: used, {nearest}; {precision}; {cost}"


def _format_notes(record: MemoryRecord) -> list[str]:
    """What a run chose or inherited: a line for the memory and a line for an adjustment in use."""
    lines = [_format_memory(record)]
    if (adjustment := record.adjustment) is not None:
        before, after = (
            _format_precision(adjustment.before),
            _format_precision(adjustment.precision),
        )
        why = f"P@1/3/5 {before} -> {after} on the same points"
        if record.inherited_from is not None:
            why = "as chosen there"
        lines.append(
            f"logit adjustment: the score of a label with n training points is lowered by "
            f"{adjustment.strength:.2g} log n, {why}"
        )
    return lines


def log_memory_notes(folder: RunFolder, record: MemoryRecord, step: int) -> Iterator[Noted]:
    """Writes the notes on the memory to the log `memory` of the run, and yields them.

    Args:
      folder: of the run.
      record: the content of its `memory.json`.
      step: the last step of the run.
    """
    lines = [Noted(step, line) for line in _format_notes(record)]
    with open_log(folder.path, "memory", step) as log:
        for line in lines:
            log.write(line)
    yield from lines


def _format_precision(precision: Sequence[float]) -> str:
    return " / ".join(f"{x:.1f}" for x in precision)
