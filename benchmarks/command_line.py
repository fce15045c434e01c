"""Results in a JSON file, to which a benchmark adds rows, so that a part can be measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from snm.runs.folder import write_json

__all__ = ["read_results", "write_results"]


def read_results(path: Path | None, start: dict[str, Any] | None = None) -> dict[str, Any]:
    """The content of a file; a copy of `start`, {} by default, if there is none.

    Args:
      path: the JSON file; None for results that are only printed.
      start: what the first results are added to.
    """
    if path is not None and path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return dict(start or {})


def write_results(path: Path | None, results: dict[str, Any]) -> None:
    """Writes the results, unless they are only printed (`path` is None)."""
    if path is not None:
        write_json(path, results)
