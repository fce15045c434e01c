"""`snm serve`: answers until it is stopped."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path
from typing import Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from snm.errors import InputError
from snm.serve.limits import Limits

__all__ = ["Serve"]


@dataclasses.dataclass
class Serve:
    """Answer over HTTP: POST /predict; GET /health, /metrics, /docs (OpenAPI), and a page at /.

    Waiting requests are answered in one batch. There is no authentication; by default the server
    listens on this machine only (see --host).

    For example:

      snm serve runs/articles
      snm serve runs/eurlex --port 9000 --index out/index
      curl -d '{"texts": ["some words"], "k": 3}' localhost:8080/predict
      curl -d '{"features": [{"3": 1, "17": 2.5}]}' localhost:8080/predict
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run."""
    index: Path | None = None
    """Index written by `snm export`, used instead of exact search."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8080
    """Port to listen on; 0 selects a free one."""
    grace: int = 30
    """Seconds that open requests have to finish when the server is stopped."""
    limits: OmitArgPrefixes[Limits] = dataclasses.field(default_factory=Limits)
    """Limits of the requests."""

    def __call__(self) -> None:
        """Runs the verb."""
        from snm.system.cache_folder import keep_programs

        keep_programs()
        _run(self)


def _run(options: Serve) -> None:
    """Listens, compiles, and answers until SIGINT or SIGTERM; then finishes open requests.

    Raises:
      InputError: no run, an index of another run, an address that cannot be used, or a missing
        package.
    """
    from rich.text import Text

    from snm.export.index import IndexedPredictor
    from snm.model.predictor import Predictor
    from snm.runs.load import load
    from snm.system.terminal import console

    for name, value in dataclasses.asdict(options.limits).items():
        if value < 1:
            raise InputError("--" + name.replace("_", "-"), str(value), "1 or more")
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
    app = make_app(predictor, options.limits)
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
