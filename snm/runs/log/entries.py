"""The entries of `log.jsonl`: made of events, read back, and the scalars in them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from snm.runs.events import COUNTS, Event

__all__ = ["finite_numbers", "get_scalars", "has_phase", "make_entry", "read_entries"]


def make_entry(event: Event) -> dict[str, Any]:
    """The entry of an event, without `time` and `phase`."""
    return {"event": type(event).__name__.lower(), **dataclasses.asdict(event)}


def read_entries(log: Path, *events: str) -> list[dict[str, Any]]:
    """Reads the entries of some events, sorted by step; empty if there is no log.

    Skips malformed lines: a killed run may leave an incomplete one. A run that resumes repeats the
    steps after its checkpoint; the last entry of a step counts.

    Args:
      log: path of `log.jsonl`.
      events: names of events, such as `stepped`.
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
                    get_scalars(entry)  # raises if a key is missing
                    found[entry["event"], entry["phase"], entry["step"]] = entry
    return sorted(found.values(), key=lambda entry: entry["step"])


def has_phase(log: Path, phase: str) -> bool:
    """Whether a log has a line of a phase; False if there is no log."""
    if not log.exists():
        return False
    with log.open(encoding="utf-8") as lines:
        return any(f'"phase": "{phase}"' in line for line in lines)


def get_scalars(entry: dict[str, Any]) -> dict[str, float]:
    """The finite numbers of an entry that are plotted over the steps: name -> value."""
    if entry["event"] == "stepped":
        return finite_numbers({"loss": entry["loss"]})  # NaN if all steps were skipped
    if entry["event"] == "evaluated":
        metrics = {name: value for name, value in entry["metrics"].items() if name not in COUNTS}
        return finite_numbers({f"validation/{name}": value for name, value in metrics.items()})
    if entry["event"] == "probed":
        probes = {k: value for k, value in entry["found"].items() if not isinstance(value, int)}
        return finite_numbers({f"probe/{name}": value for name, value in probes.items()})
    return {}


def finite_numbers(values: dict[str, Any]) -> dict[str, float]:
    """The values that are finite numbers: name -> value."""
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float | np.floating) and math.isfinite(value)
    }
