"""Operations on a folder of an object store, with retries and exponential backoff.

All operations are idempotent, so they can be retried even if the first try succeeded and only the
response was lost: an object is written as a whole, under a name that depends on its content or its
writer.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import errno
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Any, TypeVar

from snm.errors import InputError
from snm.stores.address import Address, mask_error
from snm.system.streams import print_note

__all__ = ["GoneError", "ObjectInfo", "Objects", "StoreError", "safe_name"]

T = TypeVar("T")

_NUM_THREADS = 8  # copy objects in parallel: one alone would leave most of the bandwidth unused
_TRIES = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0  # seconds between tries
_PRINT_AFTER = 10.0  # seconds after which retries are printed
# Permanent errors: by type, of the local disk, and those of s3fs and gcsfs. For status 403, gcsfs
# raises `OSError("Forbidden: ...")`.
_FINAL = (PermissionError, IsADirectoryError, NotADirectoryError)
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_FINAL_NAMES = ("Credential", "Unauthorized", "Forbidden", "AuthError", "ParamValidation")
_FINAL_TEXTS = ("Forbidden", "Bad Request")
_FINAL_CODES = (401, 403, "401", "403")
_TEMPORARY = ("rate limit", "invalid credentials")  # the second: a token expired, and is renewed
_VERSIONS = ("generation", "etag", "ETag", "md5Hash", "mtime", "LastModified", "created")


class StoreError(Exception):
    """An operation of an object store failed after all tries; the text is one line."""


class GoneError(StoreError):
    """The object does not exist."""


def _pause(tried: int) -> float:
    """Seconds to wait after a number of tries: each pause is twice as long as the last.

    It is shortened at random by up to a half, so that many machines do not retry at once.
    """
    whole = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (tried - 1))
    return whole * random.uniform(0.5, 1)


@dataclasses.dataclass(frozen=True)
class ObjectInfo:
    """An entry of a listing: size in bytes, and a version that changes with the content."""

    size: int
    version: str


class Objects:
    """The objects of a folder in a store, by their names relative to it.

    Args:
      address: the folder, which need not exist.

    Raises:
      InputError: a package is not installed.
    """

    def __init__(self, address: Address):
        self.address = address
        self._files = address.filesystem()
        self._root = str(self._files._strip_protocol(str(address))).rstrip("/")
        self._ended = threading.Event()

    def list_objects(self, below: str = "") -> dict[str, ObjectInfo]:
        """The objects whose names begin with the folder `below`, by name."""
        place = f"{self._root}/{below}".rstrip("/")
        inside = f"{place}/"  # some stores also list other names with this prefix

        def find() -> dict[str, Any]:
            try:
                return self._files.find(place, detail=True)
            except FileNotFoundError:  # only some stores have empty folders
                return {}

        entries = self._retry(below or ".", find)
        names = {name: info for name, info in entries.items() if info.get("type") == "file"}
        return {
            name[len(self._root) + 1 :]: ObjectInfo(int(info["size"]), _version(info))
            for name, info in names.items()
            if name.startswith(inside) and not name.endswith("/")
        }

    def read(self, name: str) -> bytes:
        """The content of a small object.

        Raises:
          GoneError: there is none.
          StoreError: it could not be read.
        """
        return self._retry(name, lambda: bytes(self._files.cat_file(self._path(name))))

    def write(self, name: str, content: bytes) -> None:
        """Writes a small object, and reads it back to compare.

        Raises:
          StoreError: it could not be written.
        """

        def put() -> None:
            self._files.pipe_file(self._path(name), content)
            with _not_found_is_retried():
                stored = self._files.cat_file(self._path(name))
            if stored != content:
                raise OSError("the store has other bytes than were sent")

        self._retry(name, put, writing=True)

    def send(self, path: Path, name: str) -> None:
        """Uploads a file, and compares its size in the store.

        Raises:
          StoreError: it could not be uploaded.
        """
        size = path.stat().st_size

        def put() -> None:
            self._files.put_file(str(path), self._path(name))
            with _not_found_is_retried():
                stored = int(self._files.info(self._path(name))["size"])
            if stored != size:
                raise OSError(f"the store has {stored} of {size} bytes")

        self._retry(name, put, writing=True)

    def fetch(self, name: str, path: Path, check: Callable[[Path], str | None]) -> None:
        """Downloads an object; makes the folder of the file.

        Args:
          name: the object.
          path: the file to write.
          check: returns an error message if the file is wrong, otherwise None.

        Raises:
          GoneError: there is no such object.
          StoreError: it could not be downloaded, or `check` returned an error.
        """

        def get() -> None:
            self._files.get_file(self._path(name), str(path))
            if (message := check(path)) is not None:
                raise OSError(message)

        path.parent.mkdir(parents=True, exist_ok=True)
        self._retry(name, get)

    def remove(self, names: Iterable[str]) -> None:
        """Removes objects, and ignores errors: nothing depends on the removal."""

        def remove_object(name: str) -> None:
            with contextlib.suppress(StoreError):
                self._retry(name, lambda: self._files.rm_file(self._path(name)), tries=3)

        self.run_parallel(remove_object, names)

    def run_parallel(self, action: Callable[[Any], object], items: Iterable[Any]) -> None:
        """Calls a function with each item, in parallel threads; raises the first error."""
        with concurrent.futures.ThreadPoolExecutor(_NUM_THREADS, "store") as pool:
            futures = [pool.submit(action, item) for item in items]
            try:
                for future in futures:
                    future.result()
            except BaseException as error:
                for future in futures:
                    future.cancel()
                if not isinstance(error, Exception):  # Ctrl-C
                    self.end()
                raise

    def end(self) -> None:
        """Ends all retries of all threads."""
        self._ended.set()

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _retry(
        self,
        name: str,
        action: Callable[[], T],
        *,
        writing: bool = False,
        tries: int = _TRIES,
    ) -> T:
        tried, start = 0, monotonic()
        while True:
            tried += 1
            try:
                return action()
            except FileNotFoundError as error:
                if not writing:
                    raise GoneError(f"{self.address / name}: no such object") from error
                last: Exception = error
            except Exception as error:  # stores' packages raise errors of many types
                last = error
            reason = mask_error(last)
            if tried == tries or _is_permanent(last) or self._ended.is_set():
                count = "1 try" if tried == 1 else f"{tried} tries"
                raise StoreError(
                    f"{self.address / name}: gave up after {count} ({reason})"
                ) from last
            pause = _pause(tried)
            if monotonic() + pause - start > _PRINT_AFTER:
                _print(f"{self.address / name}: trying again ({tried + 1} of {tries}): {reason}")
            self._ended.wait(pause)


@contextlib.contextmanager
def _not_found_is_retried() -> Iterator[None]:
    """Turns `FileNotFoundError` into an error that is retried: new objects may be visible later."""
    try:
        yield
    except FileNotFoundError as error:
        raise OSError("the store does not have what was sent") from error


_print_lock = threading.Lock()
_printed_at: list[float] = []  # when the last line was printed, by any thread


def _print(line: str) -> None:
    """Prints a line on stderr, at most one in ten seconds, as many objects may fail at once."""
    with _print_lock:
        if not _printed_at or monotonic() - _printed_at[0] >= _PRINT_AFTER:
            _printed_at[:] = [monotonic()]
            print_note(line)


def safe_name(name: str, where: str) -> str:
    """Checks that the name of an object is a valid file name below a folder, and returns it.

    Raises:
      InputError: the file would be outside of the folder.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise InputError(where, f"an object named {ascii(name)[:80]}", "names of files in a folder")
    return name


def _is_permanent(error: Exception) -> bool:
    """Whether retrying is useless."""
    text = str(error)
    if any(part in text.lower() for part in _TEMPORARY):
        return False
    if isinstance(error, FileNotFoundError):  # no bucket; or an expired upload of a large object
        return "specified upload" not in text
    disk_full = isinstance(error, OSError) and error.errno in _DISK
    known_type = any(part in type(error).__name__ for part in _FINAL_NAMES)
    code = getattr(error, "code", None) or getattr(error, "status", None)
    no_access = code in _FINAL_CODES or text.startswith(_FINAL_TEXTS)
    return disk_full or known_type or no_access or isinstance(error, _FINAL)


def _version(info: dict[str, Any]) -> str:
    versions = [str(info[name]) for name in _VERSIONS if info.get(name) is not None]
    return versions[0] if versions else ""
