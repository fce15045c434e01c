"""Keeps a run in an object store: it is written to a folder of this machine, which is uploaded.

The folder is brought from the store at the start. After each checkpoint its files are linked or
copied beside, which takes milliseconds, and a thread uploads these while training goes on. If the
next checkpoint comes sooner, the one that still waits is left out. The end of the run waits.

Of several processes, the first writes the run, and each of the others has a copy: brought at the
start, and again before the trained model is put together.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import shutil
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import jax

from snm.distributed.processes import barrier, has_several_processes, is_first_process
from snm.errors import StoppedError
from snm.runs.events import Event, Finished, Noted, Saved
from snm.runs.folder import WRITTEN_IN_PLACE
from snm.stores.address import Address
from snm.stores.copies import cache_folder_of
from snm.stores.objects import Objects, StoreError
from snm.stores.uploads import RECORD, Uploads, download_newest
from snm.system import disk
from snm.system.checksums import write_sealed
from snm.system.locks import LOCK, locked

__all__ = ["Place", "place_of"]

_STAGED = ".staged-"
_CHECKPOINTS, _MANIFEST = "checkpoints", "manifest.json"
_STORED, _BROUGHT = "the store has the run", "every process has the run"


class Place:
    """The folder that a run is written to.

    Attributes:
      folder: a folder of this machine.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    @property
    def share(self) -> Callable[[], None] | None:
        """Copies the folder of process 0 to all; None where all have one folder."""
        return None

    def follow(self, events: Generator[Event]) -> Generator[Event]:
        """Yields the events of the run unchanged; see `Mirror`."""
        yield from events


@contextlib.contextmanager
def place_of(run_dir: str | Path) -> Iterator[Place]:
    """The folder of a run: `run_dir` itself, or one in the cache folder for an address in a store.

    Raises:
      InputError: another process of this machine writes to the address, a package is missing, or
        the local disk refuses.
      StoreError: the store gave up.
    """
    address = Address.of(run_dir)
    if address is None:
        yield Place(Path(run_dir))
        return
    # Several processes on one machine may have one cache folder.
    home = cache_folder_of(
        address, "runs" if is_first_process() else f"runs-of-process-{jax.process_index()}"
    )
    with locked(home / LOCK, f"--run-dir {address}"):
        objects = Objects(address)
        if not is_first_process():
            yield Replica(home / address.name, objects)
            return
        uploads = Uploads(objects, home)
        uploads.begin(home / address.name)
        with contextlib.closing(Mirror(home / address.name, uploads)) as mirror:
            mirror.begin()
            try:
                yield mirror
            except KeyboardInterrupt:
                objects.end()
                raise


class Mirror(Place):
    """A run whose folder is uploaded as it grows.

    Args:
      folder: of the run, brought from the store.
      uploads: of the store, begun.
    """

    def __init__(self, folder: Path, uploads: Uploads):
        super().__init__(folder)
        self._uploads = uploads
        self._pool = concurrent.futures.ThreadPoolExecutor(1, "upload")
        self._sending: concurrent.futures.Future[None] | None = None
        self._next: Path | None = None  # staged, and waiting for the one before
        self._count = 0
        for left in folder.parent.glob(f"{_STAGED}*"):
            disk.remove_tree(left)

    def follow(self, events: Generator[Event]) -> Generator[Event]:
        """Yields the events of a run, and uploads its folder at each checkpoint and at the end.

        Raises:
          StoreError: the store gave up; the folder is whole.
        """
        step = 0
        try:
            with contextlib.closing(events):
                for event in events:
                    step = getattr(event, "step", step)
                    if isinstance(event, Saved | Finished):
                        self._push()
                    if isinstance(event, Finished):
                        if not self._sent():
                            yield Noted(step, f"uploading what is left to {self._uploads.address}")
                        self._wait()
                        barrier(_STORED)
                    self._look()
                    yield event
        except StoppedError:
            self._push()
            self._wait()
            barrier(_STORED)
            raise
        except (StoreError, GeneratorExit):
            raise
        except Exception:
            with contextlib.suppress(OSError, StoreError):  # the other error is the one to tell
                self._push()
                self._wait()
            raise

    def begin(self) -> None:
        """Lets the other processes have the folder as it is here, perhaps newer than the store."""
        if has_several_processes():
            self._share()

    @property
    def share(self) -> Callable[[], None] | None:
        """As `Place.share`; all processes must call it at the same point."""
        return self._share if has_several_processes() else None

    def _share(self) -> None:
        self._push()
        self._wait()
        barrier(_STORED)
        barrier(_BROUGHT)

    def close(self) -> None:
        """Ends the thread after the upload under way; warns if that fails and nobody waited."""
        self._pool.shutdown()
        if self._next is not None:
            disk.remove_tree(self._next)
        if self._sending is not None:  # the caller left the events before their end
            error = self._sending.exception()
            if error is not None:
                warnings.warn(f"{error}; {self._whole_here}", stacklevel=2)

    def _push(self) -> None:
        """Stages the folder as it is now, in place of what waits."""
        if not self.folder.exists():
            return
        if self._next is not None:
            disk.remove_tree(self._next)
            self._next = None
        self._count += 1
        staged = self.folder.parent / f"{_STAGED}{self._count}"
        try:
            stage(self.folder, staged)
        except BaseException:  # a part of a run is never uploaded
            disk.remove_tree(staged)
            raise
        self._next = staged
        self._look()

    def _look(self) -> None:
        """Raises what ended an upload, and begins the next."""
        if self._sending is not None and self._sending.done():
            sending, self._sending = self._sending, None
            self._result_of(sending)
        if self._sending is None and self._next is not None:
            staged, self._next = self._next, None
            self._sending = self._pool.submit(self._send, staged)

    def _sent(self) -> bool:
        """Whether all is in the store, or is there within a second."""
        end = time.monotonic() + 1
        while self._sending is not None and (left := end - time.monotonic()) > 0:
            concurrent.futures.wait([self._sending], timeout=left)
            self._look()
        return self._sending is None

    def _wait(self) -> None:
        self._look()
        while self._sending is not None:
            concurrent.futures.wait([self._sending])
            self._look()

    def _result_of(self, sending: concurrent.futures.Future[None]) -> None:
        try:
            sending.result()
        except StoreError as error:
            raise StoreError(f"{error}; {self._whole_here}") from error

    @property
    def _whole_here(self) -> str:
        return f"the run is whole in {self.folder}, and the same command goes on"

    def _send(self, staged: Path) -> None:
        try:
            paths = sorted(path for path in staged.rglob("*") if path.is_file())
            self._uploads.send({path.relative_to(staged).as_posix(): path for path in paths})
        finally:
            disk.remove_tree(staged)


class Replica(Place):
    """A copy of the run for a process that does not write it, on a disk of its own.

    Args:
      folder: of this process.
      objects: of the store.
    """

    def __init__(self, folder: Path, objects: Objects):
        super().__init__(folder)
        self._objects = objects
        self._bring()

    @property
    def share(self) -> Callable[[], None]:
        """As `Place.share`."""
        return self._bring

    def _bring(self) -> None:
        barrier(_STORED)
        record = self.folder.parent / RECORD
        if (found := download_newest(self._objects, self.folder, record)) is not None:
            write_sealed(record, {"name": found.name})
        barrier(_BROUGHT)

    def follow(self, events: Generator[Event]) -> Generator[Event]:
        """Yields the events, and waits for the last upload of process 0."""
        try:
            for event in events:
                if isinstance(event, Finished):
                    barrier(_STORED)
                yield event
        except StoppedError:
            barrier(_STORED)
            raise


def stage(folder: Path, staged: Path) -> None:
    """Gives the files of a run second names in another folder, as they are at this moment.

    The caller's thread must be the one that writes the run; checkpoints may be written and removed
    meanwhile by other threads. Files that are written in place are copied.

    Args:
      folder: of the run.
      staged: a new folder on the same disk.
    """
    while True:
        try:
            manifests = sorted(_manifests(folder / _CHECKPOINTS))
            for path in _files(folder, manifests):
                target = staged / path
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.parts[0] in WRITTEN_IN_PLACE:
                    shutil.copyfile(folder / path, target)
                else:
                    disk.link(folder / path, target)
            # A checkpoint is renamed before it is removed: what is there still was there all along.
            for manifest in manifests:
                manifest.stat()
            return
        except FileNotFoundError:  # a checkpoint was removed: what supersedes it is there now
            disk.remove_tree(staged)


def _files(folder: Path, manifests: list[Path]) -> Iterator[Path]:
    """The files that belong to the run, by their paths in its folder; checkpoints by manifest."""
    for manifest in manifests:
        for path in sorted(manifest.parent.rglob("*")):
            if path.is_file():
                yield path.relative_to(folder)
    for path in sorted(folder.iterdir()):
        if path.name == _CHECKPOINTS:
            continue
        if path.is_dir() and not path.is_symlink():
            for inner in sorted(path.rglob("*")):
                if inner.is_file() and not inner.is_symlink():
                    yield inner.relative_to(folder)
        elif path.is_file() and not path.name.startswith(".") and path.suffix != ".partial":
            yield path.relative_to(folder)


def _manifests(checkpoints: Path) -> Iterator[Path]:
    """The manifests of complete checkpoints, of all phases."""
    for pattern in (f"*/{_MANIFEST}", f"*/*/{_MANIFEST}"):
        for path in checkpoints.glob(pattern):
            if path.parent.name.isdigit():
                yield path
