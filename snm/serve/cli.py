"""`snm serve`: answers until it is stopped."""

from __future__ import annotations

import dataclasses
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
    """Folder of a run, or of `snm export --to npy`."""
    index: Path | None = None
    """Index written by `snm export`, used instead of exact search."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8080
    """Port to listen on; 0 selects a free one."""
    allowed_host: tuple[str, ...] = ()
    """Names under which clients reach the server, where that is neither localhost, an IP address
    nor --host: those of a proxy, say. '*' allows all."""
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

        for name, value in dataclasses.asdict(self.limits).items():
            if value < 1:
                raise InputError("--" + name.replace("_", "-"), str(value), "1 or more")
        say(f"loading {self.run}")  # before the imports, which take a second or two
        from snm.system.cache_folder import keep_programs

        keep_programs()
        _run(self)


def _run(options: Serve) -> None:
    """Listens, compiles, and answers until SIGINT or SIGTERM; then finishes open requests.

    Raises:
      InputError: no run, an index of another run, an address that cannot be used, or a missing
        package.
    """
    from snm.export.index import IndexedPredictor
    from snm.export.load import load
    from snm.model.predictor import Predictor
    from snm.system.terminal import say

    try:
        from snm.serve.app import make_app
        from snm.serve.server import listen, make_server, run
    except ImportError as error:
        found, expected = f"no {error.name}", "pip install 'snm[serve]'"
        raise InputError("snm serve", found, expected) from error
    predictor: Predictor | IndexedPredictor = load(options.run, verify=options.verify)
    if options.index is not None:
        assert isinstance(predictor, Predictor)
        predictor = IndexedPredictor.open(options.index, predictor)
    listening = listen(options.host, options.port)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    say("compiling")
    server = make_server(
        make_app(predictor, options.limits, (options.host, *options.allowed_host)),
        patience=options.limits.patience,
        grace=options.grace,
        ready=lambda: say(f"serving {options.run} on http://{shown}:{port} (Ctrl-C stops it)"),
    )
    with listening:
        run(server, listening)
