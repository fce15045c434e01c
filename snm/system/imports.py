"""Imports of modules beside other work, and without packages that are not needed."""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from typing import Any

__all__ = ["begin_imports", "without"]

_CHANGING = threading.Lock()  # of the list of finders


def begin_imports(*names: str) -> None:
    """Imports modules in a thread; where one fails, it fails again, and is told, when it is used.

    Args:
      names: of modules.
    """

    def import_them() -> None:
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)

    threading.Thread(target=import_them, name="importing").start()


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """What this thread imports within does not find a package, unless it is imported already.

    For a library that imports a large package wherever it is installed, and can do without.

    Args:
      name: of the package.
    """
    finder = _Hidden(name, threading.get_ident())
    # Another list each time: an import in another thread may be going through this one, and would
    # miss a finder, and so a module, where those before it become fewer.
    with _CHANGING:
        sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        with _CHANGING:
            sys.meta_path = [one for one in sys.meta_path if one is not finder]


class _Hidden(MetaPathFinder):
    """Finds nothing, and ends the search for one package in one thread."""

    def __init__(self, name: str, thread: int):
        self._name, self._thread = name, thread

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Ends the search as if nothing was found."""
        if fullname == self._name and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is left out here", name=fullname)
