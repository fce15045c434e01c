"""`snm serve`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from tyro.conf import OmitArgPrefixes, Positional, arg

from snm.errors import InputError, flag_of
from snm.serve.limits import Limits
from snm.stores.marks import CopiedFolder, CopiedRun
from snm.system.imports import requires_extra

if TYPE_CHECKING:
    from fastapi import FastAPI

    from snm.prediction.predictor import Predictor
    from snm.serve.reloading import Reload
    from snm.serve.workers import WorkerContext
    from snm.system.signals import SignalEvent

__all__ = ["Serve"]

Reopened = TypeVar("Reopened")

_LAST_PORT = 65535  # getaddrinfo takes larger ones modulo 65536


@dataclasses.dataclass
class Serve:
    """Answer over HTTP: POST /predict; GET /health, /metrics, /docs (OpenAPI), and a page at /.

    Waiting requests are answered in one batch. There is no authentication; by default the server
    listens on this machine only (see --host). At SIGHUP it opens RUN again, and answers with what
    it found when that is ready; if RUN is a link, it may point to a newer model then.

    For example:

      snm serve runs/articles
      snm serve runs/eurlex --port 9000 --index out/index
      snm serve out/model --workers 4
      curl -d '{"texts": ["some words"], "k": 3}' localhost:8080/predict
      curl -d '{"features": [{"3": 1, "17": 2.5}]}' localhost:8080/predict
    """

    run: Annotated[Positional[CopiedRun[Path]], arg(metavar="RUN")]
    """Folder of a run, or of `snm export --to npy` or `--to hub`; or an address of one in a store
    (gs://bucket/runs/a) or on the Hugging Face Hub (hf://owner/name)."""
    index: CopiedFolder[Path | None] = None
    """Index written by `snm export`, used instead of exact search."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8080
    """Port to listen on; 0 selects a free one."""
    allowed_host: tuple[str, ...] = ()
    """Names under which clients reach the server, where that is neither localhost, an IP address
    nor --host: those of a proxy, say. '*' allows all."""
    workers: int = 1
    """Processes that answer. More than one need an export as npy, which they share in memory."""
    grace: int = 30
    """Seconds that open requests have to finish when the server is stopped."""
    verify: bool = True
    """Compare the parameters with their checksums first; --no-verify loads sooner, from a disk that
    is trusted."""
    limits: OmitArgPrefixes[Limits] = dataclasses.field(default_factory=Limits)
    """Limits of the requests."""

    def __call__(self) -> None:
        """Runs the verb."""
        from snm.system.terminal import say

        for name, value in {**dataclasses.asdict(self.limits), "workers": self.workers}.items():
            if value < 1:
                raise InputError(flag_of(name), str(value), "1 or more")
        if not 0 <= self.port <= _LAST_PORT:
            raise InputError("--port", str(self.port), f"0 to {_LAST_PORT}")
        say(f"loading {self.run}")  # before the imports, which take a second or two
        from snm.system.compilation_cache import enable_compilation_cache
        from snm.system.signals import reload_requested

        enable_compilation_cache()
        with reload_requested() as reload:
            _run(self, reload)


def _run(options: Serve, reload_requested: SignalEvent) -> None:
    """Listens, compiles, and serves until SIGINT or SIGTERM; then finishes open requests.

    Args:
      options: the command.
      reload_requested: set when the model is to be opened again.

    Raises:
      InputError: no run, an index of another run, an address that cannot be used, several workers
        of a run, or a missing package.
    """
    from snm.system.terminal import say

    with requires_extra("snm serve", "serve"):
        from snm.serve.http.server import listen
    resolved = _resolve_links(options)
    predictor = _open_model(resolved)
    with listen(options.host, options.port) as listening:
        host, port = listening.getsockname()[:2]
        displayed_host = f"[{host}]" if ":" in host else host
        serving = f"serving {options.run} on http://{displayed_host}:{port} (Ctrl-C stops it)"
        say("compiling")
        if options.workers > 1:
            del predictor  # it was opened to report errors; the workers open their own
            _serve_with_workers(options, resolved, listening, serving, reload_requested)
            return

        def reopen() -> Predictor:
            return _open_model(_resolve_links(options))

        app = _app(options, predictor, _reload(options, reload_requested, reopen))
        del predictor  # else a replaced model would stay in memory
        _serve(options, app, listening, lambda: say(serving))


def _serve_with_workers(
    options: Serve,
    resolved: Serve,
    listening: socket.socket,
    serving: str,
    reload_requested: SignalEvent,
) -> None:
    """Serves with several workers until SIGINT or SIGTERM.

    Args:
      options: the command.
      resolved: the same with links resolved.
      listening: the socket on which all workers accept connections.
      serving: to be said when the first one answers.
      reload_requested: set when the model is to be opened again.

    Raises:
      InputError: the first worker ended before it answered.
    """
    from snm.serve.workers import supervise
    from snm.system.streams import print_note
    from snm.system.terminal import say

    announced = False

    def on_ready(count: int) -> None:
        nonlocal announced
        if not announced:  # later, all others may have ended
            announced = True
            say(serving)
        elif count == options.workers:
            say(f"{count} workers answer")

    def on_end(number: int, status: int | None) -> None:
        print_note(f"worker {number} ended with status {status}: another one starts")

    def reopen() -> Serve:
        new = _resolve_links(options)
        _open_model(new)  # in this process first, to report errors
        return new

    supervise(
        _run_worker,
        resolved,
        options.workers,
        listening,
        grace=options.grace,
        on_ready=on_ready,
        on_end=on_end,
        reload=_reload(options, reload_requested, reopen),
    )


def _reload(
    options: Serve, requested: SignalEvent, reopen: Callable[[], Reopened]
) -> Reload[Reopened]:
    """The reload of a service, with `reopen`, which prints whether it worked."""
    from snm.serve.reloading import Reload, why_not_opened
    from snm.system.streams import print_note
    from snm.system.terminal import say

    def failed(error: Exception) -> None:
        print_note(f"the old model stays, as the new one does not open: {why_not_opened(error)}")

    return Reload(requested, reopen, lambda: say(f"serving {options.run}, opened again"), failed)


def _run_worker(listening: socket.socket, context: WorkerContext[Serve]) -> None:
    """The function of one of several workers; its parent has verified the checksums of the models.

    Args:
      listening: the socket to serve on.
      context: sends the options, with the folder of each new model.
    """
    from snm.serve.reloading import Reload, why_not_opened
    from snm.system.compilation_cache import enable_compilation_cache
    from snm.system.streams import print_note

    enable_compilation_cache()  # before the first program is compiled, or JAX caches none

    def load_trusted() -> Predictor:
        return _load(dataclasses.replace(context.newest_model(), verify=False))

    def reload_failed(error: Exception) -> None:
        why = f"as the new model does not open beside its old: {why_not_opened(error)}"
        try:
            print_note(f"a worker ends, {why}")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # its replacement opens the new model only

    app = _app(
        context.newest_model(),
        load_trusted(),
        Reload(context.reload_requested, load_trusted, context.on_ready, reload_failed),
    )
    _serve(context.newest_model(), app, listening, context.on_ready)


def _resolve_links(options: Serve) -> Serve:
    """The options with links resolved, so that all workers open the same model."""

    def resolve(path: Path) -> Path:
        real = path.resolve()
        return path if real == path.absolute() else real

    index = None if options.index is None else resolve(options.index)
    return dataclasses.replace(options, run=resolve(options.run), index=index)


def _open_model(options: Serve) -> Predictor:
    """Opens the model, and prints a note if its run is unfinished.

    Raises:
      InputError: no run, an index of another run, or several workers of a run.
    """
    from snm.export.npy.folder import is_npy_export
    from snm.runs.unfinished import note_if_unfinished

    predictor = _load(options)
    with contextlib.suppress(OSError):  # at a reload, the terminal may be gone
        note_if_unfinished(options.run)
    if options.workers > 1 and not is_npy_export(options.run):
        expected = "its export, which they share: snm export RUN --to npy"
        raise InputError(f"--workers {options.workers}", "a run", expected)
    return predictor


def _load(options: Serve) -> Predictor:
    from snm.export.index import with_index
    from snm.export.load import load

    predictor = load(options.run, verify=options.verify)
    return predictor if options.index is None else with_index(predictor, options.index)


def _app(options: Serve, predictor: Predictor, reload: Reload[Predictor]) -> FastAPI:
    """Makes the application; only it may refer to the model, so that a reload can free it."""
    with requires_extra("snm serve", "serve"):
        from snm.serve.http.app import make_app

    names = (options.host, *options.allowed_host)
    return make_app(predictor, options.limits, names, reload)


def _serve(
    options: Serve, app: FastAPI, listening: socket.socket, ready: Callable[[], None]
) -> None:
    """Compiles, and serves until it is stopped."""
    from snm.serve.http.server import make_server, run

    patience = options.limits.patience
    run(make_server(app, patience=patience, grace=options.grace, ready=ready), listening)
