"""Which data a memory is for; the settings read it, and import nothing of the search."""

from __future__ import annotations

__all__ = ["FEWEST_POINTS"]

FEWEST_POINTS = 200
"""Training points below which no memory is tried."""
