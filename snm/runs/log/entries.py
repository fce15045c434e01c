"""The lines of `log.jsonl`: an event as an entry, entries read back, and the numbers in one."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from snm.runs.events import COUNTS, Event

__all__ = ["entry_of", "numbers_of", "read_entries", "scalars_of"]


def entry_of(event: Event) -> dict[str, Any]:
    """An event as its line has it, but for the time and the phase."""
    return {"event": type(event).__name__.lower(), **dataclasses.asdict(event)}


def read_entries(log: Path, *events: str) -> list[dict[str, Any]]:
    """The entries of some events, by step; none where there is no log.

    A run that was killed may have left half a line, which is passed over, as entries of another
    form are; it repeats the steps after its checkpoint, of which the last entry counts.

    Args:
      log: the file.
      events: what the entries are of, such as `stepped`.
    """
    found: dict[Any, dict[str, Any]] = {}
    if not log.exists():
        return []
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if not any(f'"{event}"' in line for event in events):
                continue
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                entry = json.loads(line)
                if entry["event"] in events and isinstance(entry["step"], int):
                    scalars_of(entry)  # has what an entry of its event has
                    found[entry["event"], entry["phase"], entry["step"]] = entry
    return sorted(found.values(), key=lambda entry: entry["step"])


def scalars_of(entry: dict[str, Any]) -> dict[str, float]:
    """The numbers of an entry that are drawn over the steps, by name; none where none is finite."""
    if entry["event"] == "stepped":
        return numbers_of({"loss": entry["loss"]})  # NaN where all of its steps were skipped
    if entry["event"] == "evaluated":
        scores = {name: one for name, one in entry["metrics"].items() if name not in COUNTS}
        return numbers_of({f"validation/{name}": one for name, one in scores.items()})
    if entry["event"] == "probed":
        floats = {name: one for name, one in entry["found"].items() if not isinstance(one, int)}
        return numbers_of({f"probe/{name}": one for name, one in floats.items()})
    return {}


def numbers_of(values: dict[str, Any]) -> dict[str, float]:
    """Those of the values that are finite numbers."""
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float | np.floating) and math.isfinite(value)
    }
