"""The standard streams: notes and errors, a reader who has gone, and the end of a process."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import NoReturn

from snm.text import escape_controls

__all__ = ["discard_output", "exit_at_once", "print_error", "print_note"]


def print_note(text: str) -> None:
    """Prints a note; to nobody if standard error is closed, where `print` would take the output."""
    if sys.stderr is not None:
        print(f"snm: {escape_controls(text)}", file=sys.stderr, flush=True)


def print_error(text: str) -> None:
    """Prints why a process ends, in one line; its status tells it too if the reader has gone."""
    line = text.replace("\n", r"\n")  # names of files may hold any character
    with contextlib.suppress(OSError):
        print_note(f"error: {line}")


def discard_output() -> None:
    """Sends standard output to nobody: where its reader has gone, Python fails to flush at exit."""
    if sys.stdout is None:  # closed when the command was started, as by `>&-`
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        return
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, sys.stdout.fileno())
    os.close(nobody)


def exit_at_once(status: int) -> NoReturn:
    """Ends the process with a status, after what was printed is written.

    It leaves out the shutdown of the interpreter, which waits for threads, and for seconds for JAX.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # nobody reads, or closed
            stream.flush()
    os._exit(status)
