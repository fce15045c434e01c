"""Imports the user's modules, modules in the background or of extras, and hides packages."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from typing import Any

from snm.errors import InputError
from snm.system.faults import is_out_of_memory
from snm.text import first_line, one_line, pip_install

__all__ = ["hide_package", "import_in_background", "import_own_modules", "requires_extra"]

_VARIABLE = "SNM_IMPORT"
_FINDERS_LOCK = threading.Lock()  # held while the list of finders changes


def import_own_modules() -> None:
    """Imports the modules that `$SNM_IMPORT` names, such as one that adds a loss to `LOSSES`.

    It holds names of modules on PYTHONPATH, separated by commas. The worker processes of
    `snm compare` import them too. Files cannot name modules, so that data or a run folder cannot
    execute code.

    Raises:
      InputError: a module that cannot be imported.
    """
    for name in filter(None, map(str.strip, os.environ.get(_VARIABLE, "").split(","))):
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever the module raises
            if is_out_of_memory(error):
                raise
            raise InputError(
                f"{_VARIABLE}={name}", one_line(error), "a module on PYTHONPATH"
            ) from error


def import_in_background(*names: str) -> None:
    """Imports modules in a thread; a failed import is raised when the module is used.

    Args:
      names: the names of the modules.
    """

    def import_them() -> None:
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)

    threading.Thread(target=import_them, name="importing").start()


@contextlib.contextmanager
def requires_extra(
    where: str, extra: str, package: str | None = None, *, constrained: bool = True
) -> Iterator[None]:
    """Within it, a failed import is an `InputError` that says how to install the extra.

    Args:
      where: what needs the package.
      extra: the name of the extra.
      package: what to say is missing; None says which one is, or what else is wrong with it.
      constrained: as in `pip_install`.

    Raises:
      InputError: an import in the block failed.
    """
    try:
        yield
    except ImportError as error:
        expected = pip_install(extra, constrained=constrained)
        missing = package or (error.name or "").partition(".")[0]
        raise InputError(
            where, f"no {missing}" if missing else first_line(error), expected
        ) from error


@contextlib.contextmanager
def hide_package(name: str) -> Iterator[None]:
    """Hides a package from imports of this thread, unless it is already imported.

    For libraries that import a large optional package whenever it is installed.

    Args:
      name: the name of the package.
    """
    finder = _Hidden(name, threading.get_ident())
    # A new list each time: an import in another thread may be iterating over the old one, and would
    # skip a finder if an earlier one were removed.
    with _FINDERS_LOCK:
        sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        with _FINDERS_LOCK:
            sys.meta_path = [other for other in sys.meta_path if other is not finder]


class _Hidden(MetaPathFinder):
    """A finder that ends the search for one package in one thread."""

    def __init__(self, name: str, thread: int):
        self._name, self._thread = name, thread

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Raises ModuleNotFoundError for the hidden package."""
        if fullname == self._name and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is left out here", name=fullname)
