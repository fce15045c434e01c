"""Reloading the model of a running server: the new one is opened first, then replaces the old."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from snm.errors import InputError
from snm.serve.background import run_in_background
from snm.system.faults import OUT_OF_MEMORY, is_out_of_memory

if TYPE_CHECKING:  # a process that starts others imports this, and no model
    from snm.prediction.predictor import Predictor
    from snm.serve.service import PredictionService
    from snm.system.signals import SignalEvent

__all__ = ["CurrentService", "Reload", "ignore_output_errors", "why_not_opened"]

Model = TypeVar("Model")

_POLL_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class Reload(Generic[Model]):
    """When and how a server reloads its model.

    Attributes:
      requested: set when the model is to be opened again.
      open: opens the new model; if it raises, the old one stays.
      on_success: called once all new requests are answered with the new model.
      on_failure: called with the error if the new model could not be opened.
    """

    requested: threading.Event | SignalEvent
    open: Callable[[], Model]
    on_success: Callable[[], None]
    on_failure: Callable[[Exception], None]


def ignore_output_errors() -> contextlib.AbstractContextManager[None]:
    """Within it, errors of printing a message do not stop the server.

    The reader of the output may be gone, or the terminal. At a broken pipe, rich raises SystemExit.
    """
    return contextlib.suppress(Exception, SystemExit)


def why_not_opened(error: Exception) -> str:
    """Why a model could not be opened, in one line."""
    if isinstance(error, InputError):
        return error.as_flags
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    return f"{type(error).__name__}: {error}".splitlines()[0]


class CurrentService:
    """The service that answers requests now; a reload replaces it while requests are answered.

    Args:
      predictor: the first model.
      make: makes the service of a model.

    Attributes:
      service: of the newest model.
    """

    def __init__(self, predictor: Predictor, make: Callable[[Predictor], PredictionService]):
        self._make, self.service = make, make(predictor)

    @contextlib.asynccontextmanager
    async def reloading(self, reload: Reload[Predictor]) -> AsyncIterator[None]:
        """Within it, the model is reloaded whenever that is requested."""
        task = asyncio.create_task(self._watch(reload))
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def _watch(self, reload: Reload[Predictor]) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if not reload.requested.is_set():
                continue
            reload.requested.clear()  # before it is opened: what is written later is a new request
            try:
                # In one expression, as a local variable would keep a replaced model alive.
                await self._replace(
                    self._make(await asyncio.wrap_future(run_in_background(reload.open)))
                )
            except Exception as error:
                with ignore_output_errors():
                    reload.on_failure(error)
            else:
                with ignore_output_errors():
                    reload.on_success()

    async def _replace(self, new: PredictionService) -> None:
        retired = new
        try:
            await new.start()
            retired, self.service = self.service, new
            await retired.wait_idle()
        finally:
            await retired.stop()
