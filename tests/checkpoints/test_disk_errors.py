"""Errors of the disk are told by their reason, in whatever form a library raises them."""

import asyncio
import errno
import logging
import os
import shutil
import subprocess
import sys

import pytest

from snm.checkpoints.disk_errors import REASONS, reason_number
from snm.checkpoints.orbax_lock import quiet_tasks
from snm.system.faults import disk_reason


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EINTR, errno.EROFS])
def test_reasons(code):
    reason = os.strerror(code).lower()
    text = f'UNAVAILABLE: Failed to create directory: "x" [OS error {code}: {os.strerror(code)}]'
    for error in (OSError(code, "no"), ValueError(text)):
        assert disk_reason(error) == reason == REASONS[reason_number(error)]
        try:
            raise RuntimeError from error
        except RuntimeError as outer:
            assert disk_reason(outer) == reason
    assert disk_reason(ValueError("a shape")) is None
    assert REASONS[reason_number(ValueError("a shape"))] == REASONS[-1]


@pytest.mark.parametrize("kind", ["create_task", "gather", "run_in_executor"])
def test_errors_of_other_arrays_are_not_logged(caplog, collect, kind):
    """Nobody asks a task, several together or a future of a thread for their error."""

    def fails():
        raise OSError(errno.ENOSPC, "no")

    async def task():
        fails()

    async def unasked():
        loop = asyncio.get_running_loop()
        if kind == "run_in_executor":
            left = loop.run_in_executor(None, fails)
        else:
            left = loop.create_task(task()) if kind == "create_task" else asyncio.gather(task())
        await asyncio.wait([left])
        del left
        collect()

    logger, filters = logging.getLogger("asyncio"), logging.getLogger("asyncio").filters
    try:
        logger.filters = []
        asyncio.run(unasked())
        assert "exception was never retrieved" in caplog.text
        caplog.clear()
        quiet_tasks()
        asyncio.run(unasked())
        assert not caplog.text
        logger.error("another error")
        assert "another error" in caplog.text
    finally:
        logger.filters = filters


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_some_errors_within_every_library():
    """Also of NumPy, orbax, FAISS and hnswlib: one line with a path, and then the same end."""
    words = ["benchmarks.trust.disk_errors", "--every", "17", "--seconds", "180"]
    found = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-3000:]
