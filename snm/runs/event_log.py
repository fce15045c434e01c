"""Writes the events of a run to `log.jsonl` and to TensorBoard event files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from snm.runs.events import Evaluated, Event, Probed, Stepped

__all__ = ["EventLog"]


class EventLog:
    """Appends events of a run; close it, or use it as a context manager.

    Args:
      folder: the run folder.
      phase: the name of the phase, such as `train` or `refit`, written to each line.
      step: the step from which the run continues. Earlier lines with later steps stay in the log;
        they belong to steps that an interruption lost.
    """

    def __init__(self, folder: Path, phase: str, step: int):
        from tensorboardX import SummaryWriter
        from tensorboardX.record_writer import register_writer_factory

        self._phase, self._path = phase, folder / "log.jsonl"
        self._lines = self._path.open("a", encoding="utf-8")
        register_writer_factory(_PREFIX, _CurveFiles())
        # Steps after the last checkpoint are repeated: TensorBoard drops their old points.
        self._board = SummaryWriter(
            f"{_PREFIX}:{folder / 'tensorboard' / phase}", purge_step=step + 1 if step else None
        )

    def write(self, event: Event) -> None:
        """Writes an event as a line, and its numbers as TensorBoard scalars."""
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
        """Writes a JSON line that starts with the time and the phase."""
        entry = {"time": round(time.time(), 3), "phase": self._phase, **values}
        try:
            self._lines.write(json.dumps(entry) + "\n")
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


_PREFIX = "snm-curves"


class _CurveFile:
    """An event file that is closed silently if the disk fails.

    tensorboardX writes from a thread and at interpreter exit, where an error cannot be caught and
    would print a traceback. `log.jsonl` has the same numbers, and reports the error.
    """

    def __init__(self, path: Path):
        self._file: IO[bytes] | None = path.open("wb")

    def _try(self, action: Callable[[IO[bytes]], object]) -> None:
        if self._file is not None:
            try:
                action(self._file)
            except OSError:
                file, self._file = self._file, None
                with contextlib.suppress(OSError):
                    file.close()

    def write(self, data: bytes) -> None:
        self._try(lambda file: file.write(data))

    def flush(self) -> None:
        self._try(lambda file: file.flush())

    def close(self) -> None:
        self._try(lambda file: file.close())
        self._file = None


class _CurveFiles:
    """The file system that tensorboardX uses for paths that start with the prefix."""

    def directory_check(self, path: str) -> None:
        self._path(path).mkdir(parents=True, exist_ok=True)

    def open(self, path: str) -> _CurveFile:
        return _CurveFile(self._path(path))

    def _path(self, path: str) -> Path:
        return Path(path.removeprefix(f"{_PREFIX}:"))
