"""Files that may not be read, also for tests that run as root."""

import pathlib

import pytest


def deny(patch: pytest.MonkeyPatch, path: pathlib.Path) -> None:
    """Makes `Path.open` of a file raise what the system does where permission is lacking."""
    usual = pathlib.Path.open

    def refuse(self, *args, **kwargs):
        if self == path:
            raise PermissionError(13, "Permission denied", str(self))
        return usual(self, *args, **kwargs)

    patch.setattr(pathlib.Path, "open", refuse)
