"""Locates the cache folder and enables JAX's persistent compilation cache in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

__all__ = ["folder", "keep_programs"]

_WORTH_KEEPING = 0.1  # seconds that a program takes to compile; reading one takes about 0.02


def keep_programs() -> None:
    """Makes JAX store compiled programs in the cache folder, so that later starts are faster."""
    import jax  # here, since reading data needs no jax

    place = folder("default")
    if place is not None:
        jax.config.update("jax_compilation_cache_dir", str(place / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)


def folder(cache: Path | Literal["default"] | None) -> Path | None:
    """The cache folder: `cache` itself, or for `default` the user's folder; it need not exist.

    The default is `$SNM_CACHE`, else `$XDG_CACHE_HOME/snm`, else `~/.cache/snm`, else None.
    """
    if cache != "default":
        return cache
    if place := os.environ.get("SNM_CACHE"):
        return Path(place)
    if place := os.environ.get("XDG_CACHE_HOME"):
        return Path(place) / "snm"
    try:
        return Path.home() / ".cache" / "snm"
    except RuntimeError:  # the account has no home folder
        return None
