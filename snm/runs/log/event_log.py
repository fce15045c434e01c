"""Writes the events of a run to `log.jsonl` and to TensorBoard event files."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from snm.distributed.processes import is_first_process
from snm.runs.events import Event
from snm.runs.log.entries import entry_of, scalars_of
from snm.system.files import lacks_final_newline

__all__ = ["EventLog", "open_log"]


class EventLog:
    """Appends events of a run; close it, or use it as a context manager.

    Args:
      folder: the run folder.
      phase: the name of the phase, such as `train` or `refit`, written to each line.
      step: the step from which the run continues. Earlier lines with later steps stay in the log;
        they belong to steps that an interruption lost.
    """

    def __init__(self, folder: Path, phase: str, step: int):
        from snm.runs.log.curves import curves

        self._phase, self._path = phase, folder / "log.jsonl"
        self._lines = self._path.open("a", encoding="utf-8")
        if lacks_final_newline(self._path):  # a full disk, or a kill: the half line stays alone
            self._lines.write("\n")
        # Steps after the last checkpoint are repeated: TensorBoard drops their old points.
        self._board = curves(folder / "tensorboard" / phase, step + 1 if step else None)

    def write(self, event: Event) -> None:
        """Writes an event as a line, and its numbers as TensorBoard scalars."""
        entry = entry_of(event)
        self.line(**entry)
        for name, value in scalars_of(entry).items():
            self._board.add_scalar(name, value, entry["step"])

    def line(self, **values: Any) -> None:
        """Writes a JSON line that starts with the time and the phase.

        Arrays and NumPy scalars become lists and numbers. JSON has no NaN and no infinity: those
        become null.
        """
        entry = {"time": round(time.time(), 3), "phase": self._phase, **values}
        try:
            text = json.dumps(_finite(entry), allow_nan=False)
            self._lines.write(text + "\n")
            self._lines.flush()
        except OSError as error:  # adds the file name
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def close(self) -> None:
        """Flushes both files."""
        self._board.close()
        with contextlib.suppress(OSError):  # `line` has raised it already
            self._lines.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _finite(value: Any) -> Any:
    """A value as JSON has it, with None for numbers that are not finite."""
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        value = np.asarray(value).tolist()
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def open_log(folder: Path | None, phase: str, step: int) -> Iterator[Any]:
    """The run's log; of several processes only the first writes it, and without a folder none."""
    if folder is None or not is_first_process():
        yield _NoLog()
        return
    with EventLog(folder, phase, step) as log:
        yield log


class _NoLog:
    def write(self, event: Event) -> None:
        """Writes nothing."""

    def line(self, **values: Any) -> None:
        """Writes nothing."""
