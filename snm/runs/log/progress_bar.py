"""Shows a progress bar for the events of a run, in a terminal or a notebook."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Generator, Iterable

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from snm.runs.events import Evaluated, Event, Started, Stepped

__all__ = ["in_notebook", "show_progress"]


def in_notebook() -> bool:
    """Whether a progress bar can be shown in a Jupyter notebook, where rich needs ipywidgets."""
    return Console().is_jupyter and importlib.util.find_spec("ipywidgets") is not None


def show_progress(events: Iterable[Event]) -> Generator[Event]:
    """Yields the events of `snm.training` unchanged, and shows a progress bar for each phase.

    Args:
      events: from `snm.training`.
    """
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
               TimeElapsedColumn(), TimeRemainingColumn()]  # fmt: skip
    with Progress(*columns, console=Console()) as bar:
        task, status = None, {"loss": "", "score": ""}
        phase = ""
        for event in events:
            if isinstance(event, Started):
                phase, status = event.phase, {"loss": "", "score": ""}
                task = bar.add_task(phase, total=event.last_step, completed=event.step)
            elif isinstance(event, Stepped) and not math.isnan(event.loss):
                status["loss"] = f"  loss {event.loss:.4f}"
            elif isinstance(event, Evaluated) and "P@1" in event.metrics:
                status["score"] = f"  validation P@1 {event.metrics['P@1']:.2f}"
            if task is not None and isinstance(event, Stepped | Evaluated):
                text = "".join([phase, *status.values()])
                bar.update(task, completed=event.step, description=text)
            yield event
