"""Errors of the disk are told by their reason, in whatever form a library raises them."""

import errno
import os
import shutil
import subprocess
import sys

import pytest

from snm.checkpoints.disk_errors import REASONS, disk_trouble, reason_number


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EINTR, errno.EROFS])
def test_reasons(code):
    reason = os.strerror(code).lower()
    text = f'UNAVAILABLE: Failed to create directory: "x" [OS error {code}: {os.strerror(code)}]'
    for error in (OSError(code, "no"), ValueError(text)):
        assert disk_trouble(error) == reason == REASONS[reason_number(error)]
        try:
            raise RuntimeError from error
        except RuntimeError as outer:
            assert disk_trouble(outer) == reason
    assert disk_trouble(ValueError("a shape")) is None
    assert REASONS[reason_number(ValueError("a shape"))] == REASONS[-1]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_some_errors_within_every_library():
    """Also of NumPy, orbax, FAISS and hnswlib: one line with a path, and then the same end."""
    words = ["benchmarks.trust.disk_errors", "--every", "17", "--seconds", "180"]
    found = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-3000:]
