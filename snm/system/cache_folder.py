"""Where compiled programs are kept from one start to the next."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

__all__ = ["folder", "keep_programs"]


def keep_programs() -> None:
    """Lets jax keep compiled programs beside the parsed data: the second start is quick."""
    import jax  # here, since reading data needs no jax

    place = folder("default")
    if place is not None:
        jax.config.update("jax_compilation_cache_dir", str(place / "compiled"))


def folder(cache: Path | Literal["default"] | None) -> Path | None:
    """The cache's folder: as given, or the default one; it need not exist."""
    if cache != "default":
        return cache
    if place := os.environ.get("SNM_CACHE"):
        return Path(place)
    if place := os.environ.get("XDG_CACHE_HOME"):
        return Path(place) / "snm"
    try:
        return Path.home() / ".cache" / "snm"
    except RuntimeError:  # an account without a home
        return None
