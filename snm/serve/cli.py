"""Runs `snm serve` until it is told to stop."""

from __future__ import annotations

import socket

from rich.text import Text

from snm.errors import InputError
from snm.export.index import IndexedPredictor
from snm.model.predictor import Predictor
from snm.runs.load import load
from snm.serve.command import Serve
from snm.system.terminal import console

__all__ = ["run_server"]


def run_server(options: Serve) -> None:
    """Listens, warms up, and answers until SIGINT or SIGTERM; then ends what is under way.

    Raises:
      InputError: no run, an index of another one, an address that cannot be listened on, a
        package that is missing.
    """
    for flag, value in (
        ("--max-k", options.max_k),
        ("--max-points", options.max_points),
        ("--max-bytes", options.max_bytes),
        ("--queue", options.queue),
    ):
        if value < 1:
            raise InputError(flag, str(value), "1 or more")
    try:
        import uvicorn

        from snm.serve.app import make_app
    except ImportError as error:
        found, expected = f"no {error.name}", "pip install 'snm[serve]'"
        raise InputError("snm serve", found, expected) from error
    predictor: Predictor | IndexedPredictor = load(options.run)
    if options.index is not None:
        assert isinstance(predictor, Predictor)
        predictor = IndexedPredictor.open(options.index, predictor)
    listening = _listen(options.host, options.port)
    host, port = listening.getsockname()[:2]
    app = make_app(predictor, options)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=options.grace,
        )
    )
    shown = f"[{host}]" if ":" in host else host
    text = f"serving {options.run} on http://{shown}:{port} (Ctrl-C stops it)"
    console.print(Text(text), soft_wrap=True)
    with listening:
        server.run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    where = f"--host {host} --port {port}"
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, number)
    except (OSError, OverflowError, UnicodeError) as error:
        raise InputError(where, _reason(error), "an address of this machine") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(where, _reason(error), "a free address of this machine") from error
    return listening


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
