"""Terminal output of the commands: a shared console, tables, bars and a wait indicator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

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
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from snm.system.streams import discard_output
from snm.text import escape_controls

__all__ = [
    "Counter",
    "console",
    "counters",
    "format_value",
    "ignore_broken_pipe",
    "make_bar",
    "make_table",
    "progress_bar",
    "say",
    "text_spinner",
    "waiting",
    "wide_console",
]

_WIDE = 140  # characters
_UPDATE_EVERY = 512  # counts; updating the text more often would slow loops over short rows


class _Escaped:
    """A renderable whose text has escapes in place of control characters."""

    def __init__(self, inner: RenderableType):
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._inner, options):
            yield (
                segment if segment.control else segment._replace(text=escape_controls(segment.text))
            )


class _Escaping(RenderHook):
    """Escapes all output, because names of files and labels may contain any character."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Escaped(renderable) for renderable in renderables]


class _Console(Console):
    """A console that can ignore a broken pipe, at which rich ends the process."""

    ignores_broken_pipe = False

    def on_broken_pipe(self) -> None:
        if not self.ignores_broken_pipe:
            super().on_broken_pipe()
        self.quiet = True
        discard_output()


def _console(width: int | None = None) -> _Console:
    new = _Console(highlight=False, markup=False, width=width)
    new.push_render_hook(_Escaping())
    return new


console = _console()


def wide_console() -> Console:
    """The console, or without a terminal a wide one, on which table rows stay on one line."""
    return console if console.is_terminal else _console(_WIDE)


def say(text: str | Text) -> None:
    """Prints a line without wrapping it, so that long paths stay in one piece."""
    console.print(text, soft_wrap=True)


@contextlib.contextmanager
def ignore_broken_pipe() -> Iterator[None]:
    """Within the block, a broken pipe of standard output is ignored.

    A log collector that ends must not end a run of hours.
    """
    before, console.ignores_broken_pipe = console.ignores_broken_pipe, True
    try:
        yield
    finally:
        console.ignores_broken_pipe = before


def format_value(value: Any) -> str:
    """Formats a value as text: numbers with thousands separators, fractions with two digits."""
    if isinstance(value, float | np.floating):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int | np.integer) else str(value)


def make_table(
    title: str | None,
    words: Iterable[str] = (),
    numbers: Iterable[str] = (),
    *,
    no_wrap: bool = False,
    **options: Any,
) -> Table:
    """Creates an empty table.

    Args:
      title: the title, left-aligned.
      words: headings of the first columns, which are left-aligned text.
      numbers: headings of the following columns, which are right-aligned.
      no_wrap: whether each number stays on one line.
      **options: options of `rich.table.Table`.
    """
    table = Table(title=title, title_justify="left", **options)
    for heading in words:
        table.add_column(heading)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=no_wrap)
    return table


# -- progress ----------------------------------------------------------------------------------


def make_bar(*columns: ProgressColumn, spins: bool = False, stays: bool = False) -> Progress:
    """A progress display with a text and other columns; silent without a terminal.

    Args:
      columns: the columns after the text.
      spins: whether to show a spinner before the text.
      stays: whether to keep the display after its end.
    """
    spinner = [SpinnerColumn()] if spins else []
    text = TextColumn("{task.description}", markup=False)
    return Progress(
        *spinner,
        text,
        *columns,
        console=console,
        transient=not stays,
        disable=not console.is_terminal,
    )


def progress_bar() -> Progress:
    """A progress bar with a count, the elapsed and the remaining time."""
    return make_bar(
        BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), spins=True
    )


class Counter(Protocol):
    """A function that starts a line that counts something."""

    def __call__(self, what: str, total: int | None = None) -> Callable[[int], None]:
        """Returns a function to call with the count; `total` is None where it is unknown."""


@contextlib.contextmanager
def counters(*, bars: bool = True) -> Iterator[Counter]:
    """Shows counts during the block, for functions that take an `on_progress`.

    Args:
      bars: whether to show a bar for each, which needs totals; otherwise the count is in the text.
    """
    with progress_bar() if bars else make_bar(TimeElapsedColumn(), spins=True) as bar:

        def counter(what: str, total: int | None = None) -> Callable[[int], None]:
            task = bar.add_task(what, total=total)

            def on_progress(done: int) -> None:
                if bars:
                    bar.update(task, completed=done)
                elif done % _UPDATE_EVERY == 0:
                    bar.update(task, description=f"{what}: {done:,}")

            return on_progress

        yield counter


@contextlib.contextmanager
def text_spinner(text: str, *, timed: bool = False) -> Iterator[Callable[[str], None]]:
    """Shows a spinner with a text; yields a function that changes the text.

    Args:
      text: the first text.
      timed: whether to show the elapsed time.
    """
    with make_bar(*[TimeElapsedColumn()] * timed, spins=True) as bar:
        task = bar.add_task(text, total=None)
        yield lambda text: bar.update(task, description=text)


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows a status line during the block, if the output is a terminal."""
    if not console.is_terminal:
        yield
        return
    with console.status(Text(what)):
        yield
