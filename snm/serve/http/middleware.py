"""ASGI middleware around the routes: counts requests, checks their Host, and limits their bodies.

A middleware is a class whose objects take `(scope, receive, send)`, as in the ASGI specification.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from fastapi.responses import JSONResponse

from snm.serve.metrics import Metrics
from snm.text import escape_controls

__all__ = [
    "BodyMiddleware",
    "ClosingMiddleware",
    "HostMiddleware",
    "MetricsMiddleware",
    "error_response",
]

_CLOSE = (b"connection", b"close")
_MOST_DROPPED = 1 << 28  # bytes of a body that is too large


def error_response(
    status: int, text: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The response to a request that failed; control characters in the text are escaped."""
    return JSONResponse({"error": escape_controls(text)}, status, headers)


class MetricsMiddleware:
    """Counts requests and measures their time.

    Args:
      app: the wrapped application.
      metrics: to update.
      paths: with a label of their own; all others share one, so that clients cannot fill the
        registry.
    """

    def __init__(self, app: Any, metrics: Metrics, paths: Collection[str]):
        self._app, self._metrics, self._paths = app, metrics, paths

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def record_status(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, record_status)
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.labels(path, str(status)).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - start)


class HostMiddleware:
    """Refuses requests for another host, against DNS rebinding.

    A web page can point its own domain name to 127.0.0.1, and then read the responses of a server
    there. Its requests still carry that name in `Host`. An IP address cannot be rebound, so all are
    allowed; so is `localhost`, and a request without the header, which no browser sends.

    Args:
      app: the wrapped application.
      names: further allowed names; `*` allows all.
    """

    def __init__(self, app: Any, names: Sequence[str] = ()):
        self._app = app
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request, or refuses it with 421."""
        if scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"localhost").decode("latin-1")
            if not self._allows(host):
                text = f"Host: found {host}, expected a name that --allowed-host lists"
                await error_response(421, text)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _allows(self, host: str) -> bool:
        if "*" in self._names:
            return True
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:  # brackets without an address
            return False
        if name in self._names and "@" not in host:
            return True
        with contextlib.suppress(ValueError):
            return bool(ipaddress.ip_address(name))
        return False


class ClosingMiddleware:
    """Adds `Connection: close` to the answers of a server that stops.

    Uvicorn closes a connection after its open answer, but does not say so: a client that keeps its
    connections would send the next request into the close, and not know whether it was received.

    Args:
      app: the wrapped application.
      is_stopping: whether the server stops.
    """

    def __init__(self, app: Any, is_stopping: Callable[[], bool]):
        self._app, self._is_stopping = app, is_stopping

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""

        async def say_close(message: Any) -> None:
            if message["type"] == "http.response.start" and self._is_stopping():
                headers = [pair for pair in message.get("headers", ()) if pair != _CLOSE]
                message = {**message, "headers": [*headers, _CLOSE]}
            await send(message)

        await self._app(scope, receive, say_close)


class BodyMiddleware:
    """Reads the body of a request, and refuses it if it is too large, too slow or compressed.

    The routes read JSON whatever the Content-Type says: `curl -d` calls its body a form.

    A body that is too large is read to its end and dropped, up to 256 MiB and until the timeout: a
    client that is still sending it when the connection closes does not see the answer.

    Args:
      app: the wrapped application.
      max_bytes: of a body.
      timeout: seconds that a body may take to arrive.
    """

    def __init__(self, app: Any, max_bytes: int, timeout: float):
        self._app, self._max_bytes, self._timeout = app, max_bytes, timeout

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request, or refuses it with 408, 413 or 415."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        size = int(length) if length.isdigit() else 0  # of the whole body, as far as it is known
        # A client that expects `100 Continue` has sent nothing yet, and waits.
        is_waiting = b"expect" in headers and size > self._max_bytes
        most = self._max_bytes + _MOST_DROPPED
        # The body is read here, before the response starts, so that it can still be refused.
        body, received, more_body, in_time = bytearray(), 0, True, True
        try:
            async with asyncio.timeout(self._timeout):
                while more_body and not is_waiting and size <= most:
                    message = await receive()
                    if message["type"] != "http.request":
                        return
                    part = message.get("body", b"")
                    received += len(part)
                    size = max(size, received)
                    more_body = message.get("more_body", False)
                    if size <= self._max_bytes:
                        body += part
        except TimeoutError:
            in_time = False
        if size > self._max_bytes:
            text = f"a body of over {self._max_bytes} bytes (see --max-bytes)"
            closing = {"Connection": "close"} if more_body else None
            await error_response(413, text, closing)(scope, receive, send)
            return
        if not in_time:
            text = f"a body that did not arrive within {self._timeout:g} seconds"
            await error_response(408, text, {"Connection": "close"})(scope, receive, send)
            return
        encoding = headers.get(b"content-encoding", b"identity").decode("latin-1")
        if body and encoding.lower() != "identity":
            text = f"Content-Encoding: found {encoding}, expected none"
            await error_response(415, text)(scope, receive, send)
            return
        headers[b"content-type"] = b"application/json"
        scope["headers"] = list(headers.items())
        sent = False

        async def replay() -> Any:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self._app(scope, replay, send)
