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
from snm.runs.log.entries import get_scalars, make_entry
from snm.system.files.atomic import lacks_final_newline

__all__ = ["EventLog", "open_log"]


class EventLog:
    """Appends events of a run; close it, or use it as a context manager.

    Args:
      folder: the run folder.
      phase: the name of the phase, such as `train` or `refit`, written to each line.
      step: the step from which the phase continues. Earlier lines with later steps stay in the
        log; they belong to steps that an interruption lost.
    """

    def __init__(self, folder: Path, phase: str, step: int):
        from snm.runs.log.tensorboard import make_summary_writer

        self._phase, self._path = phase, folder / "log.jsonl"
        self._file = self._path.open("a", encoding="utf-8")
        if lacks_final_newline(self._path):  # a kill or a full disk left an incomplete line
            self._file.write("\n")
        # Steps after the last checkpoint are repeated: TensorBoard drops their old points.
        purge_step = step + 1 if step else None
        self._summary_writer = make_summary_writer(folder / "tensorboard" / phase, purge_step)

    def write(self, event: Event) -> None:
        """Writes an event as a line, and its numbers as TensorBoard scalars."""
        entry = make_entry(event)
        self.write_line(**entry)
        for name, value in get_scalars(entry).items():
            self._summary_writer.add_scalar(name, value, entry["step"])

    def write_line(self, **values: Any) -> None:
        """Writes a JSON line that starts with the time and the phase.

        Arrays and NumPy scalars become lists and numbers. JSON has no NaN and no infinity: those
        become null.
        """
        entry = {"time": round(time.time(), 3), "phase": self._phase, **values}
        try:
            text = json.dumps(_to_json(entry), allow_nan=False)
            self._file.write(text + "\n")
            self._file.flush()
        except OSError as error:  # adds the file name
            raise OSError(error.errno, error.strerror, str(self._path)) from error

    def close(self) -> None:
        """Flushes both files."""
        self._summary_writer.close()
        with contextlib.suppress(OSError):  # `write_line` has raised it already
            self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _to_json(value: Any) -> Any:
    """Converts arrays to lists, and numbers that are not finite to None."""
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__array__"):
        value = np.asarray(value).tolist()
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextlib.contextmanager
def open_log(folder: Path | None, phase: str, step: int) -> Iterator[Any]:
    """Opens the log of a run, or without a folder or in a later process one that writes nothing."""
    if folder is None or not is_first_process():
        yield _NoLog()
        return
    with EventLog(folder, phase, step) as log:
        yield log


class _NoLog:
    def write(self, event: Event) -> None:
        """Writes nothing."""

    def write_line(self, **values: Any) -> None:
        """Writes nothing."""
