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
import time
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from snm.errors import InputError
from snm.stores.address import Address

__all__ = ["Found", "GoneError", "Objects", "Patience", "StoreError", "at_once"]

T = TypeVar("T")

_AT_ONCE = 8  # objects that are copied side by side: one of them alone leaves most of a link idle
# Where waiting does not help; packages of stores name their errors of credentials so.
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_OF_ACCESS = ("Credential", "Unauthorized", "Forbidden", "AuthError")
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
            if self._files.cat_file(self._path(name)) != content:
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
            if (there := int(self._files.info(self._path(name))["size"])) != size:
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

        at_once(one, names)

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
        most, tried = tries or self._patience.tries, 0
        while True:
            tried += 1
            try:
                return action()
            except FileNotFoundError as error:
                if not writing:
                    raise GoneError(f"{self.address / name}: no such object") from error
                # The bucket is missing, or what was written cannot be seen yet.
                last: Exception = error
            except Exception as error:  # stores' packages raise errors of many types
                last = error
            if tried == most or (tried > 1 and _final(last)):
                raise StoreError(
                    f"{self.address / name}: gave up after {tried} "
                    f"{'try' if tried == 1 else 'tries'} ({_in_words(last)})"
                ) from last
            time.sleep(self._patience.pause(tried))


def safe(name: str, where: str) -> str:
    """The name of an object that becomes that of a file below a folder.

    Raises:
      InputError: it would leave the folder.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise InputError(where, f"an object named {ascii(name)[:80]}", "names of files in a folder")
    return name


def at_once(action: Callable[[Any], object], items: Iterable[Any]) -> None:
    """Calls a function with each item, several at a time; raises the first error."""
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE, "store") as pool:
        futures = [pool.submit(action, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def _final(error: Exception) -> bool:
    """Whether another try cannot help."""
    full = isinstance(error, OSError) and error.errno in _DISK  # of this machine
    of_access = any(one in type(error).__name__ for one in _OF_ACCESS)
    return full or of_access or isinstance(error, _FINAL)


def _version(info: dict[str, Any]) -> str:
    told = [str(info[name]) for name in _VERSIONS if info.get(name) is not None]
    return told[0] if told else ""


def _in_words(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
