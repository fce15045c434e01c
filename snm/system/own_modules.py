"""Imports the user's own modules before a command runs."""

from __future__ import annotations

import importlib
import os

from snm.errors import InputError
from snm.system.faults import is_out_of_memory
from snm.text import one_line

__all__ = ["import_own_modules"]

_VARIABLE = "SNM_IMPORT"


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
