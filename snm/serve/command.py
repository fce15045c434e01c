"""`snm serve` on the command line; everything heavy is imported when it runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

__all__ = ["Serve"]


@dataclasses.dataclass
class Serve:
    """Answer over HTTP: POST /predict; GET /health, /metrics, /docs (OpenAPI), and a page at /.

    Requests that wait are answered together. It listens on this machine only, unless --host says
    otherwise: there is no authentication.

    For example:

      snm serve runs/articles
      snm serve runs/eurlex --port 9000 --index out/index
      curl -d '{"texts": ["some words"], "k": 3}' localhost:8080/predict
      curl -d '{"features": [{"3": 1, "17": 2.5}]}' localhost:8080/predict
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run."""
    index: Path | None = None
    """Index of `snm export`, instead of exact search over all labels."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8080
    """Port to listen on; 0 takes a free one."""
    max_k: int = 100
    """Most labels that a request may ask for."""
    max_points: int = 256
    """Most points of a request; more are refused with 413."""
    max_bytes: int = 1 << 20
    """Most bytes of a request; more are refused with 413."""
    queue: int = 256
    """Requests that may wait; more are refused with 503."""
    grace: int = 30
    """Seconds that requests under way have left when the server is stopped."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.serve.cli import run_server
        from snm.system.cache_folder import keep_programs

        keep_programs()
        run_server(self)
