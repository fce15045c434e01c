"""Keeps orbax to one operation at a time, and its repeated tracebacks out of the output."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["ALONE", "asking_no_other", "quiet", "quiet_tasks"]

_LATE_SECONDS = 0.5

ALONE = threading.RLock()
"""Held while orbax saves or loads. It numbers its operations with one counter of the process, which
a save reads a while after it has advanced it. A load beside it, of another member, made it write
into a folder not yet there."""


def quiet_tasks() -> None:
    """Drops what asyncio and Python say of the rest of a checkpoint that could not be written.

    Other arrays fail for the same reason, and what comes after them is not begun: nobody asks for
    their errors, as SavingError has them.
    """
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    logger = logging.getLogger("asyncio")
    if _of_a_task not in logger.filters:
        logger.addFilter(_of_a_task)


def _of_a_task(record: logging.LogRecord) -> bool:
    """Is False for what asyncio logs of a Task, a Future or a _GatheringFuture that failed."""
    return not record.getMessage().partition("\n")[0].endswith("exception was never retrieved")


@contextlib.contextmanager
def asking_no_other(apart: bool) -> Iterator[None]:
    """Lets one process of several save alone, while the others do something else.

    Orbax 0.12 compares the folder between all processes, also those that are not active, which
    then never answer.

    Args:
      apart: False does nothing.
    """
    if not apart:
        yield
        return
    from orbax.checkpoint.experimental.v1._src.saving import execution

    with ALONE:
        asked = execution._check_directory_consistency
        execution._check_directory_consistency = lambda directory: None
        try:
            yield
        finally:
            execution._check_directory_consistency = asked


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses the repeated tracebacks of an error that is raised in the block.

    Orbax logs one traceback per thread. Tensorstore's threads print another one each when they find
    orbax's event loop closed.
    """
    with ALONE:
        logger, hook = logging.getLogger("absl"), sys.unraisablehook
        level = logger.level

        def unraisable(what: Any) -> None:
            if str(what.exc_value) != "Event loop is closed":
                hook(what)

        logger.setLevel(logging.CRITICAL)
        sys.unraisablehook = unraisable
        try:
            yield
        except BaseException:
            time.sleep(_LATE_SECONDS)  # waits for tensorstore's threads
            raise
        finally:
            logger.setLevel(level)
            sys.unraisablehook = hook
