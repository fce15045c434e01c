"""Lines on standard error, apart from the results: notes and errors."""

from __future__ import annotations

import contextlib
import sys

from snm.system.escapes import escape_controls

__all__ = ["print_error", "print_note"]


def print_note(text: str) -> None:
    """Prints a note; to nobody if standard error is closed, where `print` would take the output."""
    if sys.stderr is not None:
        print(f"snm: {escape_controls(text)}", file=sys.stderr, flush=True)


def print_error(text: str) -> None:
    """Prints why a process ends, in one line; its status tells it too if the reader has gone."""
    line = text.replace("\n", r"\n")  # names of files may hold any character
    with contextlib.suppress(OSError):
        print_note(f"error: {line}")
