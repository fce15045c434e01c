"""Help texts without the line breaks of the source, which tyro keeps and then wraps once more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["flowing", "flowing_help"]


def flowing(text: str) -> str:
    r"""The text with one line for each paragraph.

    Example:
      >>> flowing("Folder of a run,\n    or its address.\n\nMore.")
      'Folder of a run, or its address.\n\nMore.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


@contextlib.contextmanager
def flowing_help() -> Iterator[None]:
    """Has docstring_parser, from which tyro takes the help of options, give texts that flow.

    It leaves the indentation of the source in an attribute's docstring, by which tyro takes each
    line for one that has to stay.
    """
    import docstring_parser

    read = docstring_parser.parse_from_object

    def of_object(*words: Any, **named: Any) -> docstring_parser.Docstring:
        found = read(*words, **named)
        for one in found.params:
            one.description = one.description and flowing(one.description)
        return found

    docstring_parser.parse_from_object = of_object
    try:
        yield
    finally:
        docstring_parser.parse_from_object = read
