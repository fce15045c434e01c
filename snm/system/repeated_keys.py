"""Finds repeated keys of JSON objects, of which Python's reader silently keeps the last value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

__all__ = ["repeated_key"]


def repeated_key(pairs: Sequence[tuple[str, Any]]) -> str | None:
    """The most frequent key of an object, if a key is repeated; else None.

    Args:
      pairs: the argument of `object_pairs_hook`.

    Example:
      >>> repeated_key([("a", 1), ("b", 2), ("b", 3)]), repeated_key([("a", 1)])
      ('b', None)
    """
    counts = Counter(name for name, _ in pairs)
    if len(counts) == len(pairs):
        return None
    return max(counts, key=lambda name: counts[name])
