"""Annif's command line with `snm` among its backends: `python -m snm.annif`.

Annif has a fixed table of backends, which other packages cannot extend by entry points. So this
package adds one to the table and calls Annif; `backend` is imported only when Annif loads it.

Public names: `register`, `create_app`.
"""

from __future__ import annotations

from typing import Any

from snm.errors import InputError
from snm.system.imports import requires_extra
from snm.system.streams import print_error

__all__ = ["create_app", "main", "register"]


def register() -> None:
    """Puts the backend `snm` into Annif's table.

    Raises:
      InputError: Annif is not installed.
    """
    with requires_extra("snm.annif", "annif", constrained=False):
        from annif.backend import _backend_fns
    _backend_fns["snm"] = _load


def create_app() -> Any:
    """Annif's web application with the backend, for an ASGI server: `snm.annif:create_app`."""
    register()
    import annif

    return annif.create_app()


def main() -> None:
    """Annif's command line."""
    import sys

    try:
        register()
    except InputError as error:
        print_error(error.as_flags)
        sys.exit(2)
    from annif.cli import cli

    cli()


def _load() -> Any:
    from snm.annif.backend import SnmBackend

    return SnmBackend
