"""Reasons why a checkpoint could not be written, as numbers for other processes."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from snm.system.faults import DISK_REASONS, disk_reason

__all__ = ["EXTRA_BYTES", "REASONS", "check_free_space", "reason_number"]

EXTRA_BYTES = 1 << 16
"""Bytes of a checkpoint besides its arrays."""

REASONS = (*DISK_REASONS.values(), "another process could not write its part")
"""Why a checkpoint could not be written; processes exchange indices into this tuple."""


def reason_number(error: BaseException) -> int:
    """The index in `REASONS` of the reason for a write error."""
    reason = disk_reason(error)
    return len(REASONS) - 1 if reason is None else REASONS.index(reason)


def check_free_space(folder: Path, size: int) -> None:
    """Raises OSError if the disk has no space for a checkpoint of `size` bytes."""
    if shutil.disk_usage(folder).free < size + EXTRA_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
