"""Terminal output of the commands: a shared console, progress bars and a wait indicator."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    RenderableType,
    RenderHook,
    RenderResult,
)
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

from snm.system.escapes import plain

__all__ = ["console", "displayed", "progress_bar", "remark", "say", "waiting", "wide_console"]

_WIDE = 140  # characters


class _Shown:
    """A renderable whose text has escapes in place of control characters."""

    def __init__(self, inner: RenderableType):
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._inner, options):
            yield segment if segment.control else segment._replace(text=plain(segment.text))


class _Escaping(RenderHook):
    """Whatever is printed is escaped: names of files and labels may hold any character."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Shown(renderable) for renderable in renderables]


def _console(width: int | None = None) -> Console:
    made = Console(highlight=False, markup=False, width=width)
    made.push_render_hook(_Escaping())
    return made


console = _console()


def wide_console() -> Console:
    """The console; without a terminal, a wide one that keeps rows of tables on one line."""
    return console if console.is_terminal else _console(_WIDE)


def say(text: str) -> None:
    """Prints a line without wrapping it, so that long paths stay in one piece."""
    console.print(text, soft_wrap=True)


def remark(text: str) -> None:
    """Prints a line that is no answer, on standard error."""
    print(f"snm: {plain(text)}", file=sys.stderr, flush=True)


def displayed(value: Any) -> str:
    """Formats a value as text: numbers with thousands separators, containers item by item."""
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
    """A progress bar, or a spinner with text if not `counted`; silent without a terminal."""
    columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
    if counted:
        columns += [BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    quiet = not console.is_terminal
    return Progress(*columns, console=console, transient=True, disable=quiet)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows a status line during the block, if the output is a terminal."""
    if not console.is_terminal:
        yield
        return
    with console.status(Text(what)):
        yield
