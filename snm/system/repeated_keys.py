"""Objects of JSON that have a key twice, of which Python's reader keeps the last value unasked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

__all__ = ["repeated_key"]


def repeated_key(pairs: Sequence[tuple[str, Any]]) -> str | None:
    """The key that an object has most often, if one is there more than once.

    Args:
      pairs: what `object_pairs_hook` gets.

    Example:
      >>> repeated_key([("a", 1), ("b", 2), ("b", 3)]), repeated_key([("a", 1)])
      ('b', None)
    """
    counts = Counter(name for name, _ in pairs)
    if len(counts) == len(pairs):
        return None
    return max(counts, key=lambda name: counts[name])
