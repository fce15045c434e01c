"""Removes the line breaks of the source from help texts: tyro would keep them, and wrap again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["unwrap_paragraphs", "unwrapped_help"]


def unwrap_paragraphs(text: str) -> str:
    r"""Joins the lines of each paragraph.

    Example:
      >>> unwrap_paragraphs("Folder of a run,\n    or its address.\n\nMore.")
      'Folder of a run, or its address.\n\nMore.'
    """
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))


@contextlib.contextmanager
def unwrapped_help() -> Iterator[None]:
    """Within it, docstring_parser, which tyro uses, returns the help of options unwrapped.

    docstring_parser keeps the indentation in the docstring of an attribute, and tyro keeps the line
    breaks of indented text.
    """
    import docstring_parser

    original = docstring_parser.parse_from_object

    def parse(*args: Any, **kwargs: Any) -> docstring_parser.Docstring:
        docstring = original(*args, **kwargs)
        for param in docstring.params:
            if param.description:
                param.description = unwrap_paragraphs(param.description)
        return docstring

    docstring_parser.parse_from_object = parse
    try:
        yield
    finally:
        docstring_parser.parse_from_object = original
