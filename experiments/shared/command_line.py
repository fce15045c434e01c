"""Runs an experiment from the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import tyro

from snm.errors import InputError

__all__ = ["run_command"]


def run_command(main: Callable[..., Any], description: str | None = None) -> None:
    """Calls `main` with the arguments of the command line; an `InputError` exits with status 2."""
    try:
        tyro.cli(main, description=description)
    except (InputError, FileNotFoundError, NotADirectoryError, PermissionError) as error:
        text = error.as_flags if isinstance(error, InputError) else str(error)
        print(f"error: {text}", file=sys.stderr)
        sys.exit(2)
