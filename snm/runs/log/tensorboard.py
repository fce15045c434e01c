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

from snm.system.imports import hide_package

with hide_package("torch"):
    from tensorboardX import SummaryWriter, event_file_writer
    from tensorboardX.record_writer import register_writer_factory

__all__ = ["make_summary_writer"]

_PREFIX = "snm-events"


def make_summary_writer(folder: Path, purge_step: int | None) -> SummaryWriter:
    """Opens a writer of event files.

    Args:
      folder: where the files are written.
      purge_step: TensorBoard drops the earlier points from this step on; None to keep all.
    """
    register_writer_factory(_PREFIX, _EventFileSystem())
    with _without_multiprocessing():
        return SummaryWriter(f"{_PREFIX}:{folder}", purge_step=purge_step)


_PATCH_LOCK = threading.Lock()  # held while the module of tensorboardX is patched


@contextlib.contextmanager
def _without_multiprocessing() -> Iterator[None]:
    """Writers that are made in this block pass events to their thread by a `queue.Queue`.

    A `multiprocessing.Queue` starts a second thread with the first event. If the system allows no
    further thread, nothing reads the queue, and closing the writer hangs.
    """
    with _PATCH_LOCK:
        original = event_file_writer.multiprocessing
        event_file_writer.multiprocessing = types.SimpleNamespace(Queue=_EventQueue)
        try:
            yield
        finally:
            event_file_writer.multiprocessing = original


class _EventQueue(queue.Queue[Any]):
    def close(self) -> None:
        """Does nothing; `multiprocessing.Queue.close` ends its thread."""


class _EventFile:
    """An event file that is closed silently if the disk fails.

    tensorboardX writes from a thread and at interpreter exit, where an error cannot be caught and
    would print a traceback. `log.jsonl` has the same numbers, and reports the error.
    """

    def __init__(self, path: Path):
        # The file name has whole seconds: a run that resumes at once appends to the same file.
        self._file: IO[bytes] | None = path.open("ab")

    def _call(self, action: Callable[[IO[bytes]], object]) -> None:
        """Calls `action` with the file, and closes the file at the first error."""
        if self._file is not None:
            try:
                action(self._file)
            except OSError:
                file, self._file = self._file, None
                with contextlib.suppress(OSError):
                    file.close()

    def write(self, data: bytes) -> None:
        self._call(lambda file: file.write(data))

    def flush(self) -> None:
        self._call(lambda file: file.flush())

    def close(self) -> None:
        self._call(lambda file: file.close())
        self._file = None


class _EventFileSystem:
    """The file system that tensorboardX uses for paths that start with `_PREFIX`."""

    def directory_check(self, path: str) -> None:
        self._path(path).mkdir(parents=True, exist_ok=True)

    def open(self, path: str) -> _EventFile:
        return _EventFile(self._path(path))

    def _path(self, path: str) -> Path:
        return Path(path.removeprefix(f"{_PREFIX}:"))
