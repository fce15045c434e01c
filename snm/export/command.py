"""`snm export` on the command line; everything heavy is imported when it runs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

__all__ = ["Export"]


@dataclasses.dataclass
class Export:
    """Write a trained model as arrays, or its class rows as an index for approximate search.

    OUTPUT becomes a folder: the arrays or the index, manifest.json, and names and vectoriser
    where the run has them. An index (HNSW, by the library itself) is measured against exact
    search on the test points: recall@k and queries a second are printed and stand in the manifest.

    For example:

      snm export runs/eurlex --to safetensors --output out/eurlex
      snm export runs/eurlex --to faiss --output out/index
      snm export runs/eurlex --to hnswlib --output out/fast --search-effort 32
      snm evaluate runs/eurlex --index out/index
    """

    run: Annotated[Positional[Path], arg(metavar="RUN")]
    """Folder of a run."""
    to: Literal["npz", "safetensors", "faiss", "hnswlib"]
    """Format."""
    output: Path
    """Folder to make; must not exist."""
    data: str | None = None
    """Data set whose points measure an index; by default the one of the run."""
    links: int = 32
    """Links of a label in an index (HNSW's M)."""
    build_effort: int = 200
    """Candidates looked at while an index is built (efConstruction)."""
    search_effort: int = 128
    """Candidates looked at by a search (efSearch)."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.export.cli import run_export

        run_export(self)
