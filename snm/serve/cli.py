"""`snm serve`: answers until it is stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from snm.errors import InputError, pip_install
from snm.serve.limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

    from snm.prediction.predictor import Predictor
    from snm.serve.renewal import Renewal
    from snm.serve.workers import Talk

__all__ = ["Serve"]

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

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run, or of `snm export --to npy` or `--to hub`; or an address of one in a store
    (gs://bucket/runs/a) or on the Hugging Face Hub (hf://owner/name)."""
    index: Path | None = None
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
                raise InputError("--" + name.replace("_", "-"), str(value), "1 or more")
        if not 0 <= self.port <= _LAST_PORT:
            raise InputError("--port", str(self.port), f"0 to {_LAST_PORT}")
        say(f"loading {self.run}")  # before the imports, which take a second or two
        from snm.system.cache_folder import enable_compilation_cache
        from snm.system.signals import reload_requested

        enable_compilation_cache()
        with reload_requested() as wished:
            _run(self, wished)


def _run(options: Serve, wished: threading.Event) -> None:
    """Listens, compiles, and answers until SIGINT or SIGTERM; then finishes open requests.

    Args:
      options: of the command.
      wished: set when the model is to be opened again.

    Raises:
      InputError: no run, an index of another run, an address that cannot be used, several workers
        of a run, or a missing package.
    """
    from snm.system.terminal import remark, say

    with _extra():
        from snm.serve.renewal import Renewal, why_kept
        from snm.serve.server import listen
        from snm.serve.workers import supervise
    now = _followed(options)
    predictor = _opened(now)
    listening = listen(options.host, options.port)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    say("compiling")

    def ready() -> None:
        say(f"serving {options.run} on http://{shown}:{port} (Ctrl-C stops it)")

    def one_more(count: int) -> None:
        if count == 1:
            ready()
        elif count == options.workers:
            say(f"{count} workers answer")

    def ended(number: int, status: int | None) -> None:
        say(f"worker {number} ended with status {status}: another one starts")

    def renewed() -> None:
        say(f"serving {options.run}, opened again")

    def kept(error: Exception) -> None:
        remark(f"the old model stays, as the new one does not open: {why_kept(error)}")

    def open_again() -> Predictor:
        return _opened(_followed(options))

    def found_again() -> Serve:
        found = _followed(options)
        _opened(found)  # by this process first, to say what is wrong
        return found

    with listening:
        if options.workers == 1:
            app = _app(options, predictor, Renewal(wished, open_again, renewed, kept))
            del predictor  # the application frees it when another takes its place
            _serve(options, app, listening, ready)
            return
        del predictor  # it was opened to say what is wrong; the workers open their own
        again = Renewal(wished, found_again, renewed, kept)
        supervise(
            _work,
            now,
            options.workers,
            listening,
            grace=options.grace,
            on_ready=one_more,
            on_end=ended,
            renewal=again,
        )


@contextlib.contextmanager
def _extra() -> Iterator[None]:
    """Within it, a missing package is an `InputError` that names the extra."""
    try:
        yield
    except ImportError as error:
        found, expected = f"no {error.name}", pip_install("serve")
        raise InputError("snm serve", found, expected) from error


def _work(listening: socket.socket, talk: Talk[Serve]) -> None:
    """What one of several workers does, with models whose checksums were compared.

    Args:
      listening: the socket that it answers on.
      talk: with the process that compared them; it sends the options, with the folder of each.
    """
    from snm.serve.renewal import Renewal, why_kept
    from snm.system.cache_folder import enable_compilation_cache
    from snm.system.terminal import remark

    enable_compilation_cache()  # before the first program is compiled, or jax keeps none

    def trusted() -> Predictor:
        return _load(dataclasses.replace(talk.newest(), verify=False))

    def kept(error: Exception) -> None:
        why = f"as the new model does not open beside its old: {why_kept(error)}"
        try:
            remark(f"a worker ends, {why}")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # another one opens the new model alone

    app = _app(talk.newest(), trusted(), Renewal(talk.wished, trusted, talk.ready, kept))
    _serve(talk.newest(), app, listening, talk.ready)


def _followed(options: Serve) -> Serve:
    """With the folders that links lead to now, so that all workers have the model of one time."""

    def target(path: Path) -> Path:
        real = path.resolve()
        return path if real == path.absolute() else real

    index = None if options.index is None else target(options.index)
    return dataclasses.replace(options, run=target(options.run), index=index)


def _opened(options: Serve) -> Predictor:
    """The model, of which what is unusual is said.

    Raises:
      InputError: no run, an index of another run, or several workers of a run.
    """
    from snm.export.mapped import is_export
    from snm.runs.unfinished import remark_unfinished

    predictor = _load(options)
    with contextlib.suppress(OSError):  # nobody hears it any more, when it is opened again
        remark_unfinished(options.run)
    if options.workers > 1 and not is_export(options.run):
        expected = "its export, which they share: snm export RUN --to npy"
        raise InputError(f"--workers {options.workers}", "a run", expected)
    return predictor


def _load(options: Serve) -> Predictor:
    from snm.export.index import with_index
    from snm.export.load import load

    predictor = load(options.run, verify=options.verify)
    return predictor if options.index is None else with_index(predictor, options.index)


def _app(options: Serve, predictor: Predictor, renewal: Renewal[Predictor]) -> FastAPI:
    """What answers; nobody else needs to hold the model."""
    with _extra():
        from snm.serve.app import make_app

    names = (options.host, *options.allowed_host)
    return make_app(predictor, options.limits, names, renewal)


def _serve(
    options: Serve, app: FastAPI, listening: socket.socket, ready: Callable[[], None]
) -> None:
    """Compiles, and answers until it is stopped."""
    from snm.serve.server import make_server, run

    patience = options.limits.patience
    run(make_server(app, patience=patience, grace=options.grace, ready=ready), listening)
