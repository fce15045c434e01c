"""Limits orbax to one operation at a time, and suppresses its repeated tracebacks."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

__all__ = ["ORBAX_LOCK", "quiet", "quiet_tasks", "without_consistency_check"]

_SETTLE_SECONDS = 0.5

ORBAX_LOCK = threading.RLock()
"""Held while orbax saves or loads. Orbax numbers its operations with one counter per process, and a
save reads the counter some time after it incremented it. A concurrent load, of another member, made
it write into a folder that did not exist yet."""


def quiet_tasks() -> None:
    """Suppresses the messages of asyncio and Python about other arrays of a failed checkpoint.

    They fail for the same reason, or are never started. Nobody awaits their errors, because
    SavingError reports the reason.
    """
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    logger = logging.getLogger("asyncio")
    if _is_not_task_error not in logger.filters:
        logger.addFilter(_is_not_task_error)


def _is_not_task_error(record: logging.LogRecord) -> bool:
    """A log filter: False for asyncio's message about a failed Task, Future or _GatheringFuture."""
    return not record.getMessage().partition("\n")[0].endswith("exception was never retrieved")


@contextlib.contextmanager
def without_consistency_check(apart: bool) -> Iterator[None]:
    """Lets one of several processes save alone.

    Orbax 0.12 compares the folder between all processes, including inactive ones, which never
    answer.

    Args:
      apart: whether process 0 saves alone; False does nothing.
    """
    if not apart:
        yield
        return
    from orbax.checkpoint.experimental.v1._src.saving import execution

    with ORBAX_LOCK:
        original = execution._check_directory_consistency
        execution._check_directory_consistency = lambda directory: None
        try:
            yield
        finally:
            execution._check_directory_consistency = original


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses the repeated tracebacks of an error that is raised in the block.

    Orbax logs one traceback per thread. Each of tensorstore's threads prints another one when
    orbax's event loop is closed.
    """
    with ORBAX_LOCK:
        logger, hook = logging.getLogger("absl"), sys.unraisablehook
        level = logger.level

        def unraisable(args: Any) -> None:
            if str(args.exc_value) != "Event loop is closed":
                hook(args)

        logger.setLevel(logging.CRITICAL)
        sys.unraisablehook = unraisable
        try:
            yield
        except BaseException:
            time.sleep(_SETTLE_SECONDS)  # waits for tensorstore's threads
            raise
        finally:
            logger.setLevel(level)
            sys.unraisablehook = hook
