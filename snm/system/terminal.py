"""What verbs show people with: one console, a bar, and a sign of waiting where a terminal is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

__all__ = ["console", "displayed", "progress_bar", "say", "waiting"]

console = Console(highlight=False, markup=False)


def say(text: str) -> None:
    """A line that may hold a long path, which stays in one piece."""
    console.print(text, soft_wrap=True)


def displayed(value: Any) -> str:
    """A number with its thousands apart, and what holds several, in words."""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {displayed(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return " ".join(displayed(inner) for inner in value)
    if isinstance(value, float | np.floating):
        return f"{value:,.2f}"
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def progress_bar(counted: bool = True) -> Progress:
    """A bar of progress, or only a text that changes; nothing where no terminal is."""
    columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
    if counted:
        columns += [BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    quiet = not console.is_terminal
    return Progress(*columns, console=console, transient=True, disable=quiet)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Says what is being waited for, on a terminal."""
    if not console.is_terminal:
        yield
        return
    with console.status(Text(what)):
        yield
