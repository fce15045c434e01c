"""Recognises errors of the disk, and encodes them as numbers for other processes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

__all__ = ["REASONS", "check_free_space", "disk_reason", "reason_number"]

_EXTRA_BYTES = 1 << 16  # bytes of a checkpoint besides its arrays

_DISK = {
    code: os.strerror(code).lower()
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.EPERM,
                 errno.EIO, errno.EINTR)
}  # fmt: skip


REASONS = (*_DISK.values(), "another process could not write its part")
"""Why a checkpoint could not be written; processes exchange indices into this tuple."""


def reason_number(error: BaseException) -> int:
    """The index in `REASONS` of the reason for a write error."""
    reason = disk_reason(error)
    return len(REASONS) - 1 if reason is None else REASONS.index(reason)


def disk_reason(error: BaseException | None) -> str | None:
    """The disk's reason for an error or one of its causes, or None if it is another kind of error.

    The text is searched as well as the errno, because tensorstore reports errors as text.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK:
            return _DISK[error.errno]
        for reason in _DISK.values():
            if reason in str(error).lower():
                return reason
        error = error.__cause__ or error.__context__
    return None


def check_free_space(folder: Path, size: int) -> None:
    """Raises OSError if the disk has no space for a checkpoint of `size` bytes."""
    if shutil.disk_usage(folder).free < size + _EXTRA_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
