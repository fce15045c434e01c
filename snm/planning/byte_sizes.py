"""Parses numbers of bytes."""

from __future__ import annotations

import re

from snm.errors import InputError

__all__ = ["parse_bytes"]

_UNITS = {"b": 1}
_UNITS |= {f"{letter}ib": 1 << 10 * power for power, letter in enumerate("kmgt", 1)}
_UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}


def parse_bytes(text: str) -> int:
    """Parses a number of bytes, such as `80GiB`, `1.5 GB` or `4096B`.

    Example:
      >>> parse_bytes("80GiB") == 80 * 2**30, parse_bytes("1.5 GB")
      (True, 1500000000)

    Raises:
      InputError: the text is not a size above 0.
    """
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([a-z]{0,3})", text.strip().lower())
    if match is None or match[2] not in _UNITS or int(float(match[1]) * _UNITS[match[2]]) < 1:
        raise InputError("--device-memory", repr(text), "a size such as 80GiB, 16GB or 500MiB")
    return int(float(match[1]) * _UNITS[match[2]])
