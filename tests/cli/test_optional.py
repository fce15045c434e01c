"""Options that may be left out."""

import dataclasses
from pathlib import Path
from typing import Literal

import tyro

from snm.cli.optional import optional_types


@dataclasses.dataclass
class Some:
    """Options of each kind that verbs have."""

    number: int | None = None
    path: Path | None = Path("here")
    words: tuple[str, ...] | None = ("one",)
    either: int | Literal["all"] | None = 3


def parsed(*words: str) -> Some:
    with optional_types():
        return tyro.cli(Some, args=words)


def test_values_and_none():
    given = ("--number", "2", "--path", "there", "--words", "a", "b", "--either", "all")
    assert parsed(*given) == Some(2, Path("there"), ("a", "b"), "all")
    nothing = ("--path", "None", "--words", "None", "--either", "None")
    assert parsed(*nothing) == Some(None, None, None, None)
    assert parsed() == Some()
