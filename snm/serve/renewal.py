"""A newer model for a server that runs: opened beside the old one, and then put in its place."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from snm.errors import InputError
from snm.serve.aside import aside
from snm.system.faults import OUT_OF_MEMORY, is_out_of_memory

if TYPE_CHECKING:  # a process that starts others imports this, and no model
    from snm.prediction.predictor import Predictor
    from snm.serve.answering import Answering

__all__ = ["Current", "Renewal", "unheard", "why_kept"]

Opened = TypeVar("Opened")

_LOOK = 0.2  # seconds


@dataclasses.dataclass(frozen=True)
class Renewal(Generic[Opened]):
    """When a server opens its model again, and how.

    Attributes:
      wished: set when it is to be opened again.
      open: opens it; an error leaves the old one in its place.
      on_renewed: called when requests are answered with it alone.
      on_kept: called with why it could not be opened.
    """

    wished: threading.Event
    open: Callable[[], Opened]
    on_renewed: Callable[[], None]
    on_kept: Callable[[Exception], None]


def unheard() -> contextlib.AbstractContextManager[None]:
    """Within it, something is told that nobody needs to hear.

    The reader of the output may be gone, or the terminal: the server goes on all the same. At a
    broken pipe, rich raises SystemExit.
    """
    return contextlib.suppress(Exception, SystemExit)


def why_kept(error: Exception) -> str:
    """An error of a model that could not be opened, in one line."""
    if isinstance(error, InputError):
        return error.as_flags
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    return f"{type(error).__name__}: {error}".splitlines()[0]


class Current:
    """The model that answers; another may take its place, and no request notices.

    Args:
      predictor: the model to begin with.
      make: what answers with a model.
    """

    def __init__(self, predictor: Predictor, make: Callable[[Predictor], Answering]):
        self._make, self.answering = make, make(predictor)

    @contextlib.asynccontextmanager
    async def renewed(self, renewal: Renewal[Predictor] | None) -> AsyncIterator[None]:
        """Within it, the model is opened again whenever that is wished; None is never."""
        task = None if renewal is None else asyncio.create_task(self._follow(renewal))
        yield
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _follow(self, renewal: Renewal[Predictor]) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            if not renewal.wished.is_set():
                continue
            renewal.wished.clear()  # before it is opened: what is written later is another wish
            try:
                await self._replace(self._make(await asyncio.wrap_future(aside(renewal.open))))
            except Exception as error:
                with unheard():
                    renewal.on_kept(error)
            else:
                with unheard():
                    renewal.on_renewed()

    async def _replace(self, new: Answering) -> None:
        left = new
        try:
            await new.start()
            left, self.answering = self.answering, new
            await left.idle()
        finally:
            await left.stop()
