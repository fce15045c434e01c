"""Modules of the user's own, imported before a command runs."""

from __future__ import annotations

import importlib
import os

from snm.errors import InputError
from snm.system.faults import lacks_memory

__all__ = ["import_own_modules"]

_VARIABLE = "SNM_IMPORT"


def import_own_modules() -> None:
    """Imports the modules that `$SNM_IMPORT` names, such as one that adds a loss to `LOSSES`.

    It is a name, or several with commas, of modules on PYTHONPATH. The processes in which
    `snm compare` trains import them too. No file that is read can name a module: that would let
    data or a run run code.

    Raises:
      InputError: a module that cannot be imported.
    """
    for name in filter(None, map(str.strip, os.environ.get(_VARIABLE, "").split(","))):
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever the module raises
            if lacks_memory(error):
                raise
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(f"{_VARIABLE}={name}", text, "a module on PYTHONPATH") from error
