"""The HTTP server under the application: its socket, stalled connections, and invalid HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from snm.errors import InputError
from snm.serve.http.middleware import ClosingMiddleware, error_response
from snm.system.faults import describe_error, is_out_of_memory
from snm.system.signals import SIGNALS, signal_handlers

__all__ = ["Server", "listen", "make_server", "run"]

_INVALID_HTTP = InputError(
    "request", "no valid HTTP", "HTTP/1.1: a request line, headers and a body"
)
_BACKLOG = 2048  # connections that wait to be accepted, uvicorn's default


def listen(host: str, port: int) -> socket.socket:
    """Binds a socket and listens; port 0 selects a free one.

    Clients that connect before the server answers wait.

    Raises:
      InputError: an address that cannot be used.
    """
    where = f"--host {host} --port {port}"
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, number)
    except (OSError, OverflowError, UnicodeError) as error:
        raise InputError(where, describe_error(error), "an address of this machine") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)  # two sockets may be bound to one address until one listens
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(where, describe_error(error), "a free address of this machine") from error
    return listening


def make_server(
    app: Any, *, patience: float, grace: int = 30, ready: Callable[[], None] = lambda: None
) -> Server:
    """A server that drops stalled connections.

    Args:
      app: the ASGI application.
      patience: seconds that a client may take to send a request, and to read its answer.
      grace: seconds that open requests have to finish when the server is stopped.
      ready: called once the server answers.
    """
    config = uvicorn.Config(
        ClosingMiddleware(app, lambda: server.should_exit),
        http=_protocol(patience + 1),  # a slow body is refused first, with an answer
        ws="none",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=grace,
    )
    server = Server(config, app, ready)
    return server


def run(server: Server, listening: socket.socket) -> None:
    """Serves until SIGINT or SIGTERM; then finishes open requests and returns.

    Raises:
      InputError: raised at the start of the application, such as a missing package.
      Exception: raised at the start of the application for lack of memory or threads.
    """

    def failed() -> Exception | None:
        error = getattr(getattr(server.app, "state", None), "failed", None)
        return error if isinstance(error, InputError) or is_out_of_memory(error) else None

    def no_failure(record: logging.LogRecord) -> bool:
        return failed() is None  # else uvicorn would log a traceback of what is raised below

    logger = logging.getLogger("uvicorn.error")
    # After the last request, uvicorn raises the signal again for the previous handler, which would
    # kill the process. These handlers ignore it, so that the process exits normally.
    logger.addFilter(no_failure)
    try:
        with signal_handlers(lambda *_: None, *SIGNALS):
            server.run(sockets=[listening])
    finally:
        logger.removeFilter(no_failure)
        if (error := failed()) is not None:
            raise error  # in place of uvicorn's exit


class Server(uvicorn.Server):
    """Uvicorn's server, which tells when it answers.

    Args:
      config: its settings.
      app: the application, without the middleware of `config.app`.
      ready: called once the server answers.
    """

    def __init__(self, config: uvicorn.Config, app: Any, ready: Callable[[], None]):
        super().__init__(config)
        self.app, self._ready = app, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to answer."""
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._ready()


def _protocol(patience: float) -> type[H11Protocol]:
    """The HTTP protocol, which closes stalled connections and those with invalid HTTP.

    Uvicorn limits only the time between requests. A client that sends half a request, or never
    reads its answer, would hold its connection forever.
    """

    class Protocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None
        _stalled_since: float | None = None
        _request: object = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._check()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            """Answers invalid HTTP in the form of all errors, and closes the connection."""
            answer = error_response(400, str(_INVALID_HTTP), {"Connection": "close"})
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):  # else one was sent already
                head = h11.Response(
                    status_code=400, reason=b"Bad Request", headers=answer.raw_headers
                )
                for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                    self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

        def _check(self) -> None:
            now = self.loop.time()
            # For the rest of a request, or for the client to read its answer.
            waiting = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or bool(
                self.transport.get_write_buffer_size()
            )
            if not waiting:
                self._stalled_since = None
            elif self._stalled_since is None or self._request is not self.cycle:
                self._stalled_since = now
            elif now - self._stalled_since >= patience:
                self.transport.abort()
                return
            self._request = self.cycle
            self._timer = self.loop.call_later(patience / 10, self._check)

    return Protocol
