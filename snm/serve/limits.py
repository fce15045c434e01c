"""Limits of the requests to the HTTP service."""

from __future__ import annotations

import dataclasses

__all__ = ["Limits"]


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of the requests."""

    max_k: int = 100
    """Most labels that a request may ask for, with those of its `exclude`."""
    max_points: int = 256
    """Most points of a request; more are refused with 413."""
    max_bytes: int = 1 << 20
    """Most bytes of a request; more are refused with 413."""
    queue: int = 256
    """Requests that may wait, and as many for an explanation; more are refused with 503."""
    patience: int = 30
    """Seconds that a client has to send a request and to take its answer."""
