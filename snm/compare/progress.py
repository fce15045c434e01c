"""Shows how far a comparison is, and hears when it is asked to stop."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

from snm.compare.jobs import Running
from snm.system.signals import stop_wished
from snm.system.terminal import bar_of, console

__all__ = ["Display", "wished_to_stop"]


class Display:
    """Shows progress: a bar on a terminal, a line per finished run elsewhere."""

    def __init__(self) -> None:
        columns = BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn()
        self.bar = bar_of(*columns, stays=True)
        self._tasks: dict[str, Any] = {}
        self._done: dict[str, int] = {}
        self._begun = time.monotonic()

    def __call__(self, stage: str, standing: Running) -> None:
        """Shows the state of the jobs of a stage."""
        if stage not in self._tasks:
            self._tasks[stage] = self.bar.add_task(stage, total=standing.total)
        at_work = ", ".join(
            f"{name} {100 * done / total:.0f}%" if total else name
            for name, done, total in standing.working
        )
        text = f"{stage}: {at_work}" if at_work else stage
        self.bar.update(self._tasks[stage], completed=standing.done, description=text)
        if self.bar.disable and standing.done != self._done.get(stage):
            self._done[stage] = standing.done
            spent = time.monotonic() - self._begun
            self.bar.console.print(
                f"{spent:7.0f} s  {stage}: {standing.done} of {standing.total} runs"
            )


@contextlib.contextmanager
def wished_to_stop() -> Iterator[Callable[[], bool]]:
    """Within the block, SIGTERM and Ctrl-C ask for an end, which the function tells of."""

    def first(signal: Any) -> None:
        print(f"snm: {signal.name}: runs finish their step and take a checkpoint; "
              "again stops at once", file=sys.stderr, flush=True)  # fmt: skip

    def second() -> None:
        console.show_cursor(True)  # the progress bar hides it
        print("snm: error: stopped at once; the same command keeps what is done, and goes on",
              file=sys.stderr, flush=True)  # fmt: skip

    with stop_wished(first, second) as wished:
        yield wished
