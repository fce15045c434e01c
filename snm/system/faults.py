"""What an error of the system says: in a few words, and whether it is for lack of room."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator

from snm.errors import InputError

__all__ = ["NO_ROOM", "STANDARD_OUTPUT", "is_full", "lacks_memory", "naming", "reason_of", "unread"]


def reason_of(error: Exception) -> str:
    """Why the system refused, in a few words.

    Example:
      >>> reason_of(PermissionError(13, "Permission denied", "a.txt")), reason_of(OSError("No"))
      ('permission denied', 'no')
      >>> reason_of(OSError("25600 requested and 25568 written"))
      'no space left, or a limit on the size of files'
      >>> reason_of(OSError("Not at runs/A")), reason_of(ValueError("CRC of A"))
      ('not at runs/A', 'CRC of A')
    """
    if _wrote_less(error):
        return "no space left, or a limit on the size of files"
    if _found_no_room(error):
        return os.strerror(errno.ENOSPC).lower()
    if reason := getattr(error, "strerror", None):
        return str(reason).lower()
    text = str(error)  # may have a path
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def is_full(error: OSError) -> bool:
    """Whether a disk has no room for a file, or a limit allows none of its size.

    Example:
      >>> is_full(OSError(errno.ENOSPC, "No space left")), is_full(PermissionError(13, "denied"))
      (True, False)
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return True
    return _wrote_less(error) or _found_no_room(error)


@contextlib.contextmanager
def naming(what: object) -> Iterator[None]:
    """Within the block, the error of a full disk names what is written, unless it names a file.

    Example:
      >>> with naming("a.npz"):
      ...     raise OSError("25600 requested and 25568 written")
      Traceback (most recent call last):
      OSError: [Errno 28] no space left, or a limit on the size of files: 'a.npz'
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None or not is_full(error):
            raise
        number = error.errno or errno.ENOSPC
        raise OSError(number, reason_of(error), str(what)) from error


def _wrote_less(error: Exception) -> bool:
    """Whether it is NumPy's for a file that took less than it has, which has no number."""
    return re.fullmatch(r"\d+ requested and \d+ written", str(error)) is not None


def _found_no_room(error: Exception) -> bool:
    """Whether it is NumPy's for a disk without the room that an array needs, without a number too.

    Example:
      >>> _found_no_room(OSError("Not enough free space to write 640 bytes after offset 128"))
      True
    """
    return str(error).startswith("Not enough free space to write ")


def unread(where: object, error: Exception, expected: str) -> InputError:
    """What to raise of a file that was not read: it wants permission, where the system denied it.

    Args:
      where: the file.
      error: of the system.
      expected: in other cases.

    Example:
      >>> print(unread("a.toml", PermissionError(13, "Permission denied"), "a TOML file"))
      a.toml: found permission denied, expected permission to read it
      >>> print(unread("a.toml", FileNotFoundError(2, "No such file"), "a TOML file"))
      a.toml: found no such file, expected a TOML file
    """
    denied = isinstance(error, PermissionError)
    return InputError(str(where), reason_of(error), "permission to read it" if denied else expected)


def lacks_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, is for lack of memory or of threads.

    Other packages turn these into errors of their own, such as of a file that they could not read.

    Example:
      >>> lacks_memory(RuntimeError("can't start new thread")), lacks_memory(RuntimeError("no"))
      (True, False)
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(said in str(error) for said in _NO_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


STANDARD_OUTPUT = "standard output"
"""What `naming` calls it."""

NO_ROOM = "out of memory or of threads: see `ulimit -v` and `ulimit -u`"
"""The line of an error that `lacks_memory`."""

_NO_MEMORY = ("can't start new thread", "std::bad_alloc", os.strerror(errno.ENOMEM))
