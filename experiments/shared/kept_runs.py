"""The runs of an experiment in a JSON file, which a second call continues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snm.errors import InputError
from snm.machine.versions import machine_record
from snm.runs.folder import read_json, write_json

__all__ = ["KeptRuns"]


class KeptRuns:
    """The runs in a JSON file; each new run is written as soon as it is done.

    Args:
      out: JSON file to write; its runs are kept, and not repeated.
      under: the key of the list of runs.
      about: mappings that explain the file; later calls may add entries.
      **facts: the same for all runs; written with the machine.

    Attributes:
      rows: the runs, in the order of their ends.

    Raises:
      InputError: the file has runs with other facts.
    """

    def __init__(
        self,
        out: Path,
        under: str = "runs",
        about: Mapping[str, dict[str, Any]] | None = None,
        **facts: Any,
    ):
        self._out, self._under, self._facts = out, under, facts
        self._about = about or {}
        self.rows: list[dict[str, Any]] = []
        if out.exists():
            found, where = read_json(out), f"--out {out}"
            if not isinstance(found, dict) or under not in found:
                raise InputError(where, "another kind of file", "one of this experiment, or none")
            for name, value in json.loads(json.dumps(facts)).items():
                if found.get(name) != value:
                    expected = f"a new file for {name} {value}"
                    raise InputError(where, f"runs with another {name}", expected)
            for name, value in json.loads(json.dumps(self._about)).items():
                if any(value.get(key, old) != old for key, old in found.get(name, {}).items()):
                    raise InputError(where, f"runs with another meaning of {name}", "a new file")
            self.rows = found[under]

    def has(self, **key: Any) -> bool:
        """Whether there is a run with these values."""
        return any(all(row.get(name) == key[name] for name in key) for row in self.rows)

    def add(self, **row: Any) -> None:
        """Adds a run, and writes the whole file."""
        self.rows.append(row)
        facts = {**machine_record(), **self._about, **self._facts}
        write_json(self._out, {**facts, self._under: self.rows})
