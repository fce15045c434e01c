"""The size of data from which a memory is tried; apart, so that settings need not import search."""

from __future__ import annotations

__all__ = ["MIN_POINTS"]

MIN_POINTS = 200
"""Training points below which no memory is tried."""
