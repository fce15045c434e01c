"""What the commands of the benchmarks share: an option, and results in a JSON file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from snm.runs.folder import write_json

__all__ = ["make_parser", "print_and_write", "read_results", "write_results"]


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with the option `--out`, which shows the docstring of a module as it is."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    return parser


def read_results(path: Path | None, start: dict[str, Any] | None = None) -> dict[str, Any]:
    """The content of a file, so that a part can be measured again; a copy of `start` without one.

    Args:
      path: the JSON file; None for results that are only printed.
      start: what the first results are added to, {} by default.
    """
    if path is not None and path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        return found
    return dict(start or {})


def write_results(path: Path | None, results: dict[str, Any] | list[dict[str, Any]]) -> None:
    """Writes the results, unless they are only printed (`path` is None)."""
    if path is not None:
        write_json(path, results)


def print_and_write(path: Path | None, results: dict[str, Any]) -> None:
    """Prints the results as JSON, and writes them if there is a path."""
    print(json.dumps(results, indent=1))
    write_results(path, results)
