"""Keeps a run in an object store: it is written to a local folder, which is uploaded.

The folder is downloaded from the store at the start. After each checkpoint its files are staged:
linked or copied to a second folder, which takes milliseconds. A thread uploads the staged files
while training continues. If the next checkpoint comes sooner, a staged folder that still waits is
replaced. The end of the run waits for the uploads.

Of several processes, the first writes the run, and each of the others has a copy: downloaded at the
start, and again before the trained model is loaded.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import shutil
import time
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path

import jax

from snm.distributed.processes import barrier, has_several_processes, is_first_process
from snm.errors import StoppedError
from snm.runs.events import Event, Finished, Noted, Saved
from snm.runs.folder import WRITTEN_IN_PLACE
from snm.stores.address import Address
from snm.stores.copies import address_cache_folder
from snm.stores.objects import Objects, StoreError
from snm.stores.uploads import RECORD, Uploads, download_newest
from snm.system.files import disk
from snm.system.files.checksums import write_sealed
from snm.system.files.locks import LOCK, locked

__all__ = ["RunLocation", "open_location"]

_STAGED_PREFIX = ".staged-"
_CHECKPOINTS, _MANIFEST = "checkpoints", "manifest.json"
_UPLOADED, _DOWNLOADED = "the store has the run", "every process has the run"


class RunLocation:
    """Where a run is kept: in a local folder, or in a store with a local folder as its copy.

    Attributes:
      folder: the local folder that the run is written to.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    @property
    def is_apart(self) -> bool:
        """Whether each process has a folder of its own, rather than all share one."""
        return False

    def copy_to_all(self) -> None:
        """Copies the folder of process 0 to all processes, which must call it at the same point."""

    def follow(self, events: Generator[Event]) -> Generator[Event]:
        """Yields the events of the run unchanged; see `RunUpload`."""
        yield from events


@contextlib.contextmanager
def open_location(run_dir: str | Path) -> Iterator[RunLocation]:
    """Opens the location of a run: `run_dir`, or a cache folder for an address in a store.

    Raises:
      InputError: another process of this machine writes to the address, a package is missing, or
        the local disk fails.
      StoreError: the store gave up.
    """
    address = Address.of(run_dir)
    if address is None:
        yield RunLocation(Path(run_dir))
        return
    # Several processes on one machine may share the cache folder.
    home = address_cache_folder(
        address, "runs" if is_first_process() else f"runs-of-process-{jax.process_index()}"
    )
    with locked(home / LOCK, f"--run-dir {address}"):
        objects = Objects(address)
        if not is_first_process():
            yield Replica(home / address.name, objects)
            return
        uploads = Uploads(objects, home)
        uploads.begin(home / address.name)
        with contextlib.closing(RunUpload(home / address.name, uploads)) as upload:
            if upload.is_apart:  # the folder may be newer than the store
                upload.copy_to_all()
            try:
                yield upload
            except KeyboardInterrupt:
                objects.end()
                raise


class RunUpload(RunLocation):
    """A run whose folder is uploaded as it grows.

    Args:
      folder: of the run, downloaded from the store.
      uploads: of the store, begun.
    """

    def __init__(self, folder: Path, uploads: Uploads):
        super().__init__(folder)
        self._uploads = uploads
        self._pool = concurrent.futures.ThreadPoolExecutor(1, "upload")
        self._upload: concurrent.futures.Future[None] | None = None
        self._staged: Path | None = None  # waits for the upload before it
        self._count = 0
        for leftover in folder.parent.glob(f"{_STAGED_PREFIX}*"):
            disk.remove_tree(leftover)

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
                        self._stage_folder()
                    if isinstance(event, Finished):
                        if not self._is_uploaded():
                            yield Noted(step, f"uploading what is left to {self._uploads.address}")
                        self._wait_for_uploads()
                        barrier(_UPLOADED)
                    self._start_next_upload()
                    yield event
        except StoppedError:
            self._stage_folder()
            self._wait_for_uploads()
            barrier(_UPLOADED)
            raise
        except (StoreError, GeneratorExit):
            raise
        except Exception:
            with contextlib.suppress(OSError, StoreError):  # the first error is raised
                self._stage_folder()
                self._wait_for_uploads()
            raise

    @property
    def is_apart(self) -> bool:
        """As `RunLocation.is_apart`."""
        return has_several_processes()

    def copy_to_all(self) -> None:
        """As `RunLocation.copy_to_all`."""
        self._stage_folder()
        self._wait_for_uploads()
        barrier(_UPLOADED)
        barrier(_DOWNLOADED)

    def close(self) -> None:
        """Ends the thread after the current upload; warns if it fails and nothing waited for it."""
        self._pool.shutdown()
        if self._staged is not None:
            disk.remove_tree(self._staged)
        if self._upload is not None:  # the caller closed the events before their end
            error = self._upload.exception()
            if error is not None:
                warnings.warn(f"{error}; {self._where_it_is}", stacklevel=2)

    def _stage_folder(self) -> None:
        """Stages the folder as it is now; replaces a staged folder that waits."""
        if not self.folder.exists():
            return
        if self._staged is not None:
            disk.remove_tree(self._staged)
            self._staged = None
        self._count += 1
        staged = self.folder.parent / f"{_STAGED_PREFIX}{self._count}"
        try:
            stage(self.folder, staged)
        except BaseException:  # an incomplete folder must not be uploaded
            disk.remove_tree(staged)
            raise
        self._staged = staged
        self._start_next_upload()

    def _start_next_upload(self) -> None:
        """Checks an upload that is done, and starts the next."""
        if self._upload is not None and self._upload.done():
            upload, self._upload = self._upload, None
            try:
                upload.result()
            except StoreError as error:
                raise StoreError(f"{error}; {self._where_it_is}") from error
        if self._upload is None and self._staged is not None:
            staged, self._staged = self._staged, None
            self._upload = self._pool.submit(self._upload_folder, staged)

    def _is_uploaded(self) -> bool:
        """Waits up to a second; returns whether all is uploaded."""
        end = time.monotonic() + 1
        while self._upload is not None and (left := end - time.monotonic()) > 0:
            concurrent.futures.wait([self._upload], timeout=left)
            self._start_next_upload()
        return self._upload is None

    def _wait_for_uploads(self) -> None:
        self._start_next_upload()
        while self._upload is not None:
            concurrent.futures.wait([self._upload])
            self._start_next_upload()

    @property
    def _where_it_is(self) -> str:
        return f"the run is whole in {self.folder}, and the same command goes on"

    def _upload_folder(self, staged: Path) -> None:
        try:
            paths = sorted(path for path in staged.rglob("*") if path.is_file())
            self._uploads.send({path.relative_to(staged).as_posix(): path for path in paths})
        finally:
            disk.remove_tree(staged)


class Replica(RunLocation):
    """A copy of the run for a process that does not write it, on a disk of its own.

    Args:
      folder: of this process.
      objects: of the store.
    """

    def __init__(self, folder: Path, objects: Objects):
        super().__init__(folder)
        self._objects = objects
        self.copy_to_all()

    @property
    def is_apart(self) -> bool:
        """As `RunLocation.is_apart`."""
        return True

    def copy_to_all(self) -> None:
        """As `RunLocation.copy_to_all`."""
        barrier(_UPLOADED)
        record = self.folder.parent / RECORD
        if (found := download_newest(self._objects, self.folder, record)) is not None:
            write_sealed(record, {"name": found.name})
        barrier(_DOWNLOADED)

    def follow(self, events: Generator[Event]) -> Generator[Event]:
        """Yields the events, and waits for the last upload of process 0."""
        try:
            for event in events:
                if isinstance(event, Finished):
                    barrier(_UPLOADED)
                yield event
        except StoppedError:
            barrier(_UPLOADED)
            raise


def stage(folder: Path, staged: Path) -> None:
    """Links the files of a run into another folder, as a snapshot; files that grow are copied.

    The caller must be the thread that writes the run. Other threads may write and remove
    checkpoints meanwhile.

    Args:
      folder: of the run.
      staged: a new folder on the same disk.
    """
    while True:
        try:
            manifests = sorted(_checkpoint_manifests(folder / _CHECKPOINTS))
            for path in _run_files(folder, manifests):
                target = staged / path
                target.parent.mkdir(parents=True, exist_ok=True)
                if path.parts[0] in WRITTEN_IN_PLACE:
                    shutil.copyfile(folder / path, target)
                else:
                    disk.link(folder / path, target)
            # A checkpoint is renamed before it is removed, so one that still exists was complete.
            for manifest in manifests:
                manifest.stat()
            return
        except FileNotFoundError:  # a checkpoint was removed, so a newer one exists: try again
            disk.remove_tree(staged)


def _run_files(folder: Path, manifests: list[Path]) -> Iterator[Path]:
    """The relative paths of the run's files: those of the checkpoints, and all others."""
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


def _checkpoint_manifests(checkpoints: Path) -> Iterator[Path]:
    """The manifests of complete checkpoints, of all phases."""
    for pattern in (f"*/{_MANIFEST}", f"*/*/{_MANIFEST}"):
        for path in checkpoints.glob(pattern):
            if path.parent.name.isdigit():
                yield path
