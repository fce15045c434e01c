"""Imports modules beside other work, for code that needs them later."""

from __future__ import annotations

import contextlib
import importlib
import threading

__all__ = ["begin_imports"]


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
