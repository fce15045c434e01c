"""Marks of the options of verbs that take an address in a store, where others take a local path.

`snm.cli` reads them. They are types: `CopiedFolder[Path]`, or `CopiedFolder[Path | None]`.
"""

from __future__ import annotations

import enum
from typing import Annotated, TypeVar

__all__ = ["CopiedFolder", "CopiedRun", "OwnAddress", "Place"]

_T = TypeVar("_T")


class Place(enum.Enum):
    """What is done with an option before its verb runs."""

    FOLDER = enum.auto()
    """A folder in a store is copied, and the path of the copy replaces its address."""
    RUN = enum.auto()
    """The same; a local folder must exist, and a model on the Hugging Face Hub is left alone."""
    OWN = enum.auto()
    """Nothing: the verb takes an address itself."""


CopiedFolder = Annotated[_T, Place.FOLDER]
CopiedRun = Annotated[_T, Place.RUN]
OwnAddress = Annotated[_T, Place.OWN]
