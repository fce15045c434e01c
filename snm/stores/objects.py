"""The operations on a folder of an object store; what fails is tried again, with growing pauses.

Each operation may be repeated without harm, also where the one before took effect and only its
answer was lost: an object is written as a whole, under a name that says its content or its writer.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import errno
import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from time import monotonic
from typing import Any, TypeVar

from snm.errors import InputError
from snm.stores.address import Address, in_words
from snm.system.escapes import plain

__all__ = ["Found", "GoneError", "Objects", "Patience", "StoreError", "safe"]

T = TypeVar("T")

_AT_ONCE = 8  # objects that are copied side by side: one of them alone leaves most of a link idle
_SILENT = 10.0  # seconds after which what is tried again is printed
# Where waiting does not help: errors by type, of this machine's disk, and as s3fs and gcsfs have
# them; gcsfs has `OSError("Forbidden: ...")` for status 403.
_FINAL = (PermissionError, IsADirectoryError, NotADirectoryError)
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_FINAL_NAMES = ("Credential", "Unauthorized", "Forbidden", "AuthError", "ParamValidation")
_FINAL_TEXTS = ("Forbidden", "Bad Request")
_FINAL_CODES = (401, 403, "401", "403")
_PASSING = ("rate limit", "invalid credentials")  # the second: a token ran out, and is renewed
_VERSIONS = ("generation", "etag", "ETag", "md5Hash", "mtime", "LastModified", "created")


class StoreError(Exception):
    """An object store did not do what was asked, after all tries; its text is one line."""


class GoneError(StoreError):
    """There is no such object."""


@dataclasses.dataclass(frozen=True)
class Patience:
    """How often an operation is tried, and the pauses between: each twice as long as the last.

    A pause is shortened at random by up to a half, so that many machines do not come back at once.

    Attributes:
      tries: at most so many.
      first: seconds of the first pause.
      longest: seconds of the longest one.
    """

    tries: int = 8
    first: float = 1.0
    longest: float = 60.0

    def pause(self, tried: int) -> float:
        """Seconds to wait after so many tries."""
        whole = min(self.longest, self.first * 2 ** (tried - 1))
        return whole * random.uniform(0.5, 1)


@dataclasses.dataclass(frozen=True)
class Found:
    """An object as a listing has it: bytes, and a text that differs when the content does."""

    size: int
    version: str


class Objects:
    """The objects of a folder in a store, by their names below it.

    Args:
      address: of the folder; it need not exist.
      patience: how often a failed operation is tried again.

    Raises:
      InputError: a package is not installed.
    """

    def __init__(self, address: Address, patience: Patience | None = None):
        self.address, self._patience = address, patience or Patience()
        self._files = address.filesystem()
        self._root = str(self._files._strip_protocol(str(address))).rstrip("/")
        self._ended = threading.Event()

    def listed(self, below: str = "") -> dict[str, Found]:
        """The objects whose names begin with the folder `below`, by name."""
        place = f"{self._root}/{below}".rstrip("/")
        inside = f"{place}/"  # some stores also list names that only begin alike

        def find() -> dict[str, Any]:
            try:
                return self._files.find(place, detail=True)
            except FileNotFoundError:  # some stores have empty folders, some have none
                return {}

        found = self._tried(below or ".", find)
        names = {name: info for name, info in found.items() if info.get("type") == "file"}
        return {
            name[len(self._root) + 1 :]: Found(int(info["size"]), _version(info))
            for name, info in names.items()
            if name.startswith(inside) and not name.endswith("/")
        }

    def read(self, name: str) -> bytes:
        """The content of a small object.

        Raises:
          GoneError: there is none.
          StoreError: it could not be read.
        """
        return self._tried(name, lambda: bytes(self._files.cat_file(self._path(name))))

    def write(self, name: str, content: bytes) -> None:
        """Writes a small object, and reads it again.

        Raises:
          StoreError: it could not be written.
        """

        def put() -> None:
            self._files.pipe_file(self._path(name), content)
            with _seen():
                there = self._files.cat_file(self._path(name))
            if there != content:
                raise OSError("the store has other bytes than were sent")

        self._tried(name, put, writing=True)

    def send(self, path: Path, name: str) -> None:
        """Uploads a file, and compares the size.

        Raises:
          StoreError: it could not be uploaded.
        """
        size = path.stat().st_size

        def put() -> None:
            self._files.put_file(str(path), self._path(name))
            with _seen():
                there = int(self._files.info(self._path(name))["size"])
            if there != size:
                raise OSError(f"the store has {there} of {size} bytes")

        self._tried(name, put, writing=True)

    def fetch(self, name: str, path: Path, check: Callable[[Path], str | None]) -> None:
        """Downloads an object.

        Args:
          name: of the object.
          path: the file to write.
          check: what is wrong with the file, in words, or None.

        Raises:
          GoneError: there is no such object.
          StoreError: it could not be downloaded, or `check` says that it is wrong.
        """

        def get() -> None:
            self._files.get_file(self._path(name), str(path))
            if (wrong := check(path)) is not None:
                raise OSError(wrong)

        self._tried(name, get)

    def remove(self, names: Iterable[str]) -> None:
        """Removes objects, as far as the store lets us: nothing depends on it."""

        def one(name: str) -> None:
            with contextlib.suppress(StoreError):
                self._tried(name, lambda: self._files.rm_file(self._path(name)), tries=3)

        self.at_once(one, names)

    def at_once(self, action: Callable[[Any], object], items: Iterable[Any]) -> None:
        """Calls a function with each item, several at a time; raises the first error."""
        with concurrent.futures.ThreadPoolExecutor(_AT_ONCE, "store") as pool:
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
        """Makes all threads give up what they would try again, for good."""
        self._ended.set()

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _tried(
        self,
        name: str,
        action: Callable[[], T],
        *,
        writing: bool = False,
        tries: int | None = None,
    ) -> T:
        most, tried, begun = tries or self._patience.tries, 0, monotonic()
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
            reason = in_words(last)
            if tried == most or _final(last) or self._ended.is_set():
                count = "1 try" if tried == 1 else f"{tried} tries"
                raise StoreError(
                    f"{self.address / name}: gave up after {count} ({reason})"
                ) from last
            pause = self._patience.pause(tried)
            if monotonic() + pause - begun > _SILENT:
                _print(f"{self.address / name}: trying again ({tried + 1} of {most}): {reason}")
            self._ended.wait(pause)


@contextlib.contextmanager
def _seen() -> Iterator[None]:
    """What was written just now may not be seen yet: another error than that of no bucket."""
    try:
        yield
    except FileNotFoundError as error:
        raise OSError("the store does not have what was sent") from error


_telling = threading.Lock()
_printed_at: list[float] = []  # when the last line was printed, by any thread


def _print(line: str) -> None:
    """Prints a line on stderr; one in ten seconds, for many objects may fail side by side."""
    with _telling:
        if not _printed_at or monotonic() - _printed_at[0] >= _SILENT:
            _printed_at[:] = [monotonic()]
            print(f"snm: {plain(line)}", file=sys.stderr, flush=True)


def safe(name: str, where: str) -> str:
    """The name of an object that becomes that of a file below a folder.

    Raises:
      InputError: it would leave the folder.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise InputError(where, f"an object named {ascii(name)[:80]}", "names of files in a folder")
    return name


def _final(error: Exception) -> bool:
    """Whether another try cannot help."""
    text = str(error)
    if any(one in text.lower() for one in _PASSING):
        return False
    if isinstance(error, FileNotFoundError):  # no bucket; or parts of a large object ran out
        return "specified upload" not in text
    full = isinstance(error, OSError) and error.errno in _DISK  # of this machine
    named = any(one in type(error).__name__ for one in _FINAL_NAMES)
    code = getattr(error, "code", None) or getattr(error, "status", None)
    of_access = code in _FINAL_CODES or text.startswith(_FINAL_TEXTS)
    return full or named or of_access or isinstance(error, _FINAL)


def _version(info: dict[str, Any]) -> str:
    versions = [str(info[name]) for name in _VERSIONS if info.get(name) is not None]
    return versions[0] if versions else ""
