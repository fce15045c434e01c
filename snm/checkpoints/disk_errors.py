"""Why a disk did not take what was written: in words, and as numbers for other processes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

__all__ = ["REASONS", "disk_trouble", "reason_number", "require_room"]

_SPARE = 1 << 16  # bytes of a checkpoint beside its arrays

_DISK = {
    code: os.strerror(code).lower()
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.EPERM,
                 errno.EIO)
}  # fmt: skip


REASONS = (*_DISK.values(), "another process could not write its part")
"""Why a checkpoint may not have been written: processes tell each other the place in here."""


def reason_number(error: BaseException) -> int:
    """The place in `REASONS` of what an error of writing is about."""
    trouble = disk_trouble(error)
    return len(REASONS) - 1 if trouble is None else REASONS.index(trouble)


def disk_trouble(error: BaseException | None) -> str | None:
    """What the disk said, if that is what an error is about: tensorstore tells it in words."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK:
            return _DISK[error.errno]
        for reason in _DISK.values():
            if reason in str(error).lower():
                return reason
        error = error.__cause__ or error.__context__
    return None


def require_room(folder: Path, size: int) -> None:
    """Finds a full disk before half of a checkpoint is written to it."""
    if shutil.disk_usage(folder).free < size + _SPARE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
