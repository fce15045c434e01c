"""Locates the cache folder and enables JAX's persistent compilation cache in it.

Programs that are loaded from it are run, so it belongs to one user: it is made for its owner alone,
and refused where others may write.
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

__all__ = ["folder", "in_store", "keep_programs", "programs_in"]

_WORTH_KEEPING = 0.1  # seconds that a program takes to compile; reading one takes about 0.02
_UNWRITTEN = "Error writing persistent compilation cache entry"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def keep_programs() -> None:
    """Makes JAX store compiled programs in the cache folder, so that later starts are faster.

    Where they cannot be written, one line on standard error says so.

    Raises:
      InputError: as `folder`.
    """
    import jax  # here, since reading data needs no jax

    place = in_store() or folder("default")
    if place is not None:
        # JAX writes a program in place: beside a process that writes it, one may read a part, and
        # compiles it again.
        said = "Error reading persistent compilation cache entry"
        warnings.filterwarnings("ignore", said, UserWarning)
        _tell_once(place)
        jax.config.update("jax_compilation_cache_dir", programs_in(place))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)


def _tell_once(place: Path | str) -> None:
    """Says once that programs are not kept, in place of JAX's warning for each of them."""
    show, told = warnings.showwarning, False

    def shown(message: Warning | str, *words: Any, **named: Any) -> None:
        nonlocal told
        if not str(message).startswith(_UNWRITTEN):
            show(message, *words, **named)
        elif not told:
            told = True
            from snm.system.terminal import remark

            reason = str(message).partition("': ")[2]  # after the name of the program
            with contextlib.suppress(OSError):  # nobody reads
                remark(f"compiled programs are not kept in {place}: {reason}")

    warnings.showwarning = shown


def programs_in(place: Path | str) -> str:
    """Where a cache has the programs for as many cores as this process uses.

    XLA:CPU cuts the work of a program into parts for the cores that there are when it compiles it,
    and JAX does not tell such programs apart: on more cores it would run on few.
    """
    return f"{place}/compiled/{xla_threads()}"


def in_store() -> str | None:
    """The address of a cache in an object store, which `$SNM_CACHE` may be; None if it is none."""
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
    ours = False
    if cache == "default":
        place, ours = _default()
    if not isinstance(place, Path):
        return None
    with contextlib.suppress(OSError):  # then nothing is cached
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir(mode=0o700, exist_ok=True)
        _check(place, ours)
    return place


def _default() -> tuple[Path | None, bool]:
    """The default folder, and whether its name is ours and not one that the user chose."""
    if (place := os.environ.get("SNM_CACHE")) and not in_store():
        return Path(place), False
    if place := os.environ.get("XDG_CACHE_HOME"):
        return Path(place) / "snm", True
    try:
        return Path.home() / ".cache" / "snm", True
    except RuntimeError:  # the account has no home folder
        return None, True


def _check(place: Path, ours: bool) -> None:
    """Refuses a folder to which others may write.

    Raises:
      InputError: see `folder`.
      OSError: it cannot be read.
    """
    found, user = place.stat(), os.geteuid()
    if found.st_uid not in (user, 0):
        expected = "one of your own: set SNM_CACHE to another folder"
        raise InputError(str(place), f"a cache folder of user {found.st_uid}", expected)
    if found.st_mode & _OTHERS_WRITE:
        if ours and found.st_uid == user:  # made under a mask that lets the group write
            place.chmod(0o700)
            return
        expected = f"your own alone: `chmod go-w {place}`, or set SNM_CACHE to another folder"
        raise InputError(str(place), "a cache folder that others may write to", expected)
