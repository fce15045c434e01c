"""TensorBoard event files, by tensorboardX.

It imports PyTorch wherever that is installed, to take its tensors: 0.7 seconds and 170 MB that the
numbers of a run do not need. Import this module where a file is opened, not before.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from snm.system.imports import without

with without("torch"):
    from tensorboardX import SummaryWriter, event_file_writer
    from tensorboardX.record_writer import register_writer_factory

__all__ = ["curves"]

_PREFIX = "snm-curves"


def curves(folder: Path, purge_step: int | None) -> SummaryWriter:
    """A writer of event files.

    Args:
      folder: for the files.
      purge_step: the first step that is written again, or None.
    """
    register_writer_factory(_PREFIX, _CurveFiles())
    with _within_a_process():
        return SummaryWriter(f"{_PREFIX}:{folder}", purge_step=purge_step)


_CHANGING = threading.Lock()  # of the module below


@contextlib.contextmanager
def _within_a_process() -> Iterator[None]:
    """Writers that are made within pass events to their thread without multiprocessing.

    Its queue starts a second thread with the first event. Where no thread is left for it, nothing
    takes the events, and whoever closes the writer waits for ever.
    """
    with _CHANGING:
        usual = event_file_writer.multiprocessing
        event_file_writer.multiprocessing = types.SimpleNamespace(Queue=_Events)
        try:
            yield
        finally:
            event_file_writer.multiprocessing = usual


class _Events(queue.Queue[Any]):
    def close(self) -> None:
        """Does nothing; multiprocessing's ends a thread."""


class _CurveFile:
    """An event file that is closed silently if the disk fails.

    tensorboardX writes from a thread and at interpreter exit, where an error cannot be caught and
    would print a traceback. `log.jsonl` has the same numbers, and reports the error.
    """

    def __init__(self, path: Path):
        # The name has whole seconds: a run that goes on at once adds to the file of before.
        self._file: IO[bytes] | None = path.open("ab")

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
