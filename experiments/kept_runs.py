"""Runs of an experiment in a JSON file, which goes on where it was broken off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from snm.machine.versions import machine
from snm.runs.folder import read_json, write_json

__all__ = ["KeptRuns"]


class KeptRuns:
    """The runs that a file has, and those that are added, each written as soon as it is done.

    Args:
      out: JSON file to write or to continue.
      under: its key of the list of runs.
      **facts: of all runs, written beside them and the machine.

    Attributes:
      rows: the runs, in the order in which they ended.
    """

    def __init__(self, out: Path, under: str = "runs", **facts: Any):
        self._out, self._under, self._facts = out, under, facts
        self.rows: list[dict[str, Any]] = read_json(out)[under] if out.exists() else []

    def has(self, **key: Any) -> bool:
        """Whether there is a run with these values."""
        return any(all(row.get(name) == key[name] for name in key) for row in self.rows)

    def add(self, **row: Any) -> None:
        """Writes the file again, as a whole, with one more run."""
        self.rows.append(row)
        write_json(self._out, {**machine(), **self._facts, self._under: self.rows})
