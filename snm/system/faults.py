"""Describes errors of the system, and recognizes those of the disk and a lack of memory."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator

from snm.errors import InputError

__all__ = [
    "DISK_REASONS",
    "OUT_OF_MEMORY",
    "STANDARD_OUTPUT",
    "describe_error",
    "disk_reason",
    "is_disk_full",
    "is_out_of_memory",
    "naming",
    "read_error",
]


def describe_error(error: Exception) -> str:
    """Describes a system error in a few words, without the path.

    Example:
      >>> describe_error(PermissionError(13, "Permission denied", "a.txt"))
      'permission denied'
      >>> describe_error(OSError("25600 requested and 25568 written"))
      'no space left, or a limit on the size of files'
      >>> describe_error(OSError("Not at runs/A")), describe_error(ValueError("CRC of A"))
      ('not at runs/A', 'CRC of A')
    """
    if _is_short_write(error):
        return "no space left, or a limit on the size of files"
    if _is_no_space(error):
        return os.strerror(errno.ENOSPC).lower()
    if reason := getattr(error, "strerror", None):
        return str(reason).lower()
    text = str(error)  # keeps the case of paths
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def is_disk_full(error: OSError) -> bool:
    """Whether the disk is full, or a limit forbids a file of that size.

    Example:
      >>> is_disk_full(OSError(errno.ENOSPC, "No space left on device"))
      True
      >>> is_disk_full(PermissionError(errno.EACCES, "Permission denied"))
      False
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return True
    return _is_short_write(error) or _is_no_space(error)


DISK_REASONS = {
    code: os.strerror(code).lower()
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.EPERM,
                 errno.EIO, errno.EINTR)
}  # fmt: skip
"""errno -> why a disk does not take a file."""


def disk_reason(error: BaseException | None) -> str | None:
    """The disk's reason for an error or one of its causes, or None if it is another kind of error.

    The text is searched as well as the errno, because tensorstore reports errors as text.
    """
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in DISK_REASONS:
            return DISK_REASONS[cause.errno]
        for reason in DISK_REASONS.values():
            if reason in str(cause).lower():
                return reason
    return None


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
        if error.filename is not None or not is_disk_full(error):
            raise
        number = error.errno or errno.ENOSPC
        raise OSError(number, describe_error(error), str(what)) from error


def _is_short_write(error: Exception) -> bool:
    """Whether it is NumPy's error for an incomplete write, which has no errno."""
    return re.fullmatch(r"\d+ requested and \d+ written", str(error)) is not None


def _is_no_space(error: Exception) -> bool:
    """Whether it is NumPy's error for too little space for an array, which has no errno.

    Example:
      >>> _is_no_space(OSError("Not enough free space to write 640 bytes after offset 128"))
      True
    """
    return str(error).startswith("Not enough free space to write ")


def read_error(where: object, error: Exception, expected: str) -> InputError:
    """The InputError for a file that could not be read.

    Args:
      where: the file.
      error: the error of the system.
      expected: what was expected, unless permission was denied.

    Example:
      >>> print(read_error("a.toml", PermissionError(13, "Permission denied"), "a TOML file"))
      a.toml: found permission denied, expected permission to read it
      >>> print(read_error("a.toml", FileNotFoundError(2, "No such file"), "a TOML file"))
      a.toml: found no such file, expected a TOML file
    """
    denied = isinstance(error, PermissionError)
    return InputError(
        str(where), describe_error(error), "permission to read it" if denied else expected
    )


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one of its causes, is due to a lack of memory or threads.

    Other packages turn these into their own errors, for example about a file they could not read.

    Example:
      >>> is_out_of_memory(RuntimeError("can't start new thread"))
      True
      >>> is_out_of_memory(RuntimeError("another reason"))
      False
    """
    for cause in _causes(error):
        if isinstance(cause, MemoryError) or getattr(cause, "errno", None) == errno.ENOMEM:
            return True
        if any(text in str(cause) for text in _OUT_OF_MEMORY_TEXTS):
            return True
    return False


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


STANDARD_OUTPUT = "standard output"
"""What `naming` calls it."""

OUT_OF_MEMORY = "out of memory or of threads: see `ulimit -v` and `ulimit -u`"
"""The message for errors that are `is_out_of_memory`."""

_OUT_OF_MEMORY_TEXTS = ("can't start new thread", "std::bad_alloc", os.strerror(errno.ENOMEM))
