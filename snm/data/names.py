"""Names of labels, as they are written: on one line, in one spelling."""

from __future__ import annotations

import unicodedata

__all__ = ["composed", "one_line"]


def one_line(name: str) -> str:
    """A name with single spaces for white space, of which there is none at its ends.

    A byte order mark counts as white space: readers drop it where a file begins with it.
    """
    return " ".join(name.replace("\ufeff", " ").split())


def composed(name: str) -> str:
    r"""A name in Unicode's composed form (NFC): letters with accents are one character each.

    Example:
      >>> composed("cafe\u0301") == "caf\u00e9"
      True
    """
    return unicodedata.normalize("NFC", name)
