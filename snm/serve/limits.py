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
    max_bytes: int = 8 << 20
    """Most bytes of a request; more are refused with 413. The default, 8 MiB, has room for 256
    embeddings of 1,024 values."""
    queue: int = 256
    """Requests that may wait, and as many for an explanation; more are refused with 503."""
    patience: int = 30
    """Seconds that a client has to send a request and to take its answer."""
