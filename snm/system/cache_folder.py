"""Locates the cache folder and enables JAX's persistent compilation cache in it.

Programs loaded from it are executed, so it must belong to one user: it is created for its owner
alone, and rejected if others may write to it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import warnings
from pathlib import Path
from typing import Any, Literal

from snm.errors import InputError
from snm.machine.cores import xla_threads

__all__ = ["compiled_programs_path", "enable_compilation_cache", "folder", "store_address"]

_MIN_COMPILE_SECONDS = 0.1  # to store a program; reading one takes about 0.02
_WRITE_WARNING = "Error writing persistent compilation cache entry"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def enable_compilation_cache() -> None:
    """Makes JAX store compiled programs in the cache folder, so that later starts are faster.

    Where they cannot be written, one line on standard error says so.

    Raises:
      InputError: as `folder`.
    """
    import jax  # here, since reading data needs no jax

    place = store_address() or folder("default")
    if place is not None:
        # JAX writes a program in place. Another process may read an incomplete file, and compiles
        # the program again.
        message = "Error reading persistent compilation cache entry"
        warnings.filterwarnings("ignore", message, UserWarning)
        _warn_once(place)
        jax.config.update("jax_compilation_cache_dir", compiled_programs_path(place))
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
            from snm.system.stderr import remark

            reason = str(message).partition("': ")[2]  # after the name of the program
            with contextlib.suppress(OSError):  # nobody reads
                remark(f"compiled programs are not kept in {place}: {reason}")

    warnings.showwarning = show_once


def compiled_programs_path(place: Path | str) -> str:
    """The path of the compiled programs for the number of cores of this process.

    XLA:CPU partitions the work of a program by the number of cores at compile time, and JAX's cache
    key does not include it: on more cores, a cached program would use too few.
    """
    return f"{place}/compiled/{xla_threads()}"


def store_address() -> str | None:
    """The address of the cache if `$SNM_CACHE` is one in an object store, else None."""
    place = os.environ.get("SNM_CACHE", "")
    return place.rstrip("/") if "://" in place else None


def folder(cache: Path | Literal["default"] | None) -> Path | None:
    """The cache folder: `cache` itself, or for `default` the user's folder.

    The default is `$SNM_CACHE`, else `$XDG_CACHE_HOME/snm`, else `~/.cache/snm`, else None. It is
    created for its owner alone if it can be; it need not exist afterwards. Where `$SNM_CACHE` is an
    address in a store, the folder is the next of these.

    Raises:
      InputError: another user owns the folder, or may write to it. The folder `snm` of the user's
        cache is closed to others instead, where it is the user's own.
    """
    place = cache
    is_default = False
    if cache == "default":
        place, is_default = _default()
    if not isinstance(place, Path):
        return None
    with contextlib.suppress(OSError):  # then nothing is cached
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir(mode=0o700, exist_ok=True)
        _check_private(place, is_default)
    return place


def _default() -> tuple[Path | None, bool]:
    """The default folder, and whether this program chose its name rather than the user."""
    if (place := os.environ.get("SNM_CACHE")) and not store_address():
        return Path(place), False
    if place := os.environ.get("XDG_CACHE_HOME"):
        return Path(place) / "snm", True
    try:
        return Path.home() / ".cache" / "snm", True
    except RuntimeError:  # the account has no home folder
        return None, True


def _check_private(place: Path, is_default: bool) -> None:
    """Rejects a folder to which others may write.

    Raises:
      InputError: see `folder`.
      OSError: it cannot be read.
    """
    status, user = place.stat(), os.geteuid()
    if status.st_uid not in (user, 0):
        expected = "one of your own: set SNM_CACHE to another folder"
        raise InputError(str(place), f"a cache folder of user {status.st_uid}", expected)
    if status.st_mode & _OTHERS_WRITE:
        if is_default and status.st_uid == user:  # created with a umask that lets the group write
            place.chmod(0o700)
            return
        expected = f"your own alone: `chmod go-w {place}`, or set SNM_CACHE to another folder"
        raise InputError(str(place), "a cache folder that others may write to", expected)
