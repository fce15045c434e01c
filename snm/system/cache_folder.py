"""Where compiled programs are kept from one start to the next."""

from __future__ import annotations

import jax

from snm.data.cache import folder

__all__ = ["keep_programs"]


def keep_programs() -> None:
    """Lets jax keep compiled programs beside the parsed data: the second start is quick."""
    place = folder("default")
    if place is not None:
        jax.config.update("jax_compilation_cache_dir", str(place / "compiled"))
