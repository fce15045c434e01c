"""What a run leaves behind line by line: log.jsonl, and event files for TensorBoard."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any

from snm.training import Evaluated, Event, Probed, Stepped

__all__ = ["EventLog"]


class EventLog:
    """Appends events of a run; close it, or use it as a context.

    Args:
      folder: the run's folder.
      phase: `train` or `refit`, a word of each line.
      step: where the run goes on; later lines of an interrupted run are those of lost steps.
    """

    def __init__(self, folder: Path, phase: str, step: int):
        from tensorboardX import SummaryWriter

        self._phase = phase
        self._lines = (folder / "log.jsonl").open("a", encoding="utf-8")
        # Steps after the last checkpoint will be taken again: their points are dropped.
        self._board = SummaryWriter(
            str(folder / "tensorboard" / phase), purge_step=step + 1 if step else None
        )

    def write(self, event: Event) -> None:
        """One line, and the event's numbers as curves."""
        values = {"event": type(event).__name__.lower(), **dataclasses.asdict(event)}
        if isinstance(event, Stepped) and math.isnan(event.loss):  # all its steps were skipped
            self.line(**{**values, "loss": None})
            return
        self.line(**values)
        if isinstance(event, Stepped):
            self._board.add_scalar("loss", event.loss, event.step)
        elif isinstance(event, Evaluated):
            for name, value in event.metrics.items():
                self._board.add_scalar(f"validation/{name}", value, event.step)
        elif isinstance(event, Probed):
            for name, value in event.found.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"probe/{name}", value, event.step)

    def line(self, **values: Any) -> None:
        """A JSON line with the time and the phase in front."""
        entry = {"time": round(time.time(), 3), "phase": self._phase, **values}
        self._lines.write(json.dumps(entry) + "\n")
        self._lines.flush()

    def close(self) -> None:
        """Flushes both files."""
        self._board.close()
        self._lines.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
