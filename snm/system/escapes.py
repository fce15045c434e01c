"""Makes text safe to print: escapes control characters and direction marks."""

from __future__ import annotations

import re

__all__ = ["escape_controls"]

# C0 except tab and newline, DEL and C1; marks that change the direction of text; lone surrogates,
# which stand for bytes of file names that are not UTF-8.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_controls(text: str) -> str:
    r"""Escapes the characters that a terminal or a page would interpret.

    Example:
      >>> escape_controls("a\x1b[31mb\u202e")
      'a\\x1b[31mb\\u202e'
    """
    return _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)
