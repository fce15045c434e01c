"""Enables JAX's persistent compilation cache."""

from __future__ import annotations

import contextlib
import os
import warnings
from pathlib import Path
from typing import Any

import jax

from snm.machine.cores import xla_threads
from snm.system.faults import describe_error
from snm.system.files.cache_folder import cache_folder
from snm.system.streams import print_note

__all__ = ["compiled_programs_path", "enable_compilation_cache"]

_MIN_COMPILE_SECONDS = 0.1  # to store a program; reading one takes about 0.02
_WRITE_WARNING = "Error writing persistent compilation cache entry"


def enable_compilation_cache() -> None:
    """Makes JAX store compiled programs, so that later starts are faster.

    They are below `$JAX_COMPILATION_CACHE_DIR`, which may be an address in a store that JAX can
    read, or in the cache folder. Where they cannot be written, one line on standard error says so.

    Raises:
      InputError: as `cache_folder`.
    """
    place = os.environ.get("JAX_COMPILATION_CACHE_DIR", "").rstrip("/") or cache_folder()
    if place is not None:
        # JAX writes a program in place. Another process may read an incomplete file, and compiles
        # the program again.
        message = "Error reading persistent compilation cache entry"
        warnings.filterwarnings("ignore", message, UserWarning)
        _warn_once(place)
        path = compiled_programs_path(place)
        if isinstance(place, Path):
            try:  # where JAX cannot create it, it says nothing, and keeps nothing
                Path(path).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                _print_reason(place, describe_error(error))
                return
        jax.config.update("jax_compilation_cache_dir", path)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _MIN_COMPILE_SECONDS)


def _warn_once(place: Path | str) -> None:
    """Says once that programs are not stored, in place of JAX's warning for each program."""
    show, has_warned = warnings.showwarning, False

    def show_once(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        nonlocal has_warned
        if not str(message).startswith(_WRITE_WARNING):
            show(message, *args, **kwargs)
        elif not has_warned:
            has_warned = True
            _print_reason(place, str(message).partition("': ")[2])  # after the program's name

    warnings.showwarning = show_once


def _print_reason(place: Path | str, reason: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads
        print_note(f"compiled programs are not kept in {place}: {reason}")


def compiled_programs_path(place: Path | str) -> str:
    """The path of the compiled programs for the number of cores of this process.

    XLA:CPU partitions the work of a program by the number of cores at compile time, and JAX's cache
    key does not include it: on more cores, a cached program would use too few.
    """
    return f"{place}/compiled/{xla_threads()}"
