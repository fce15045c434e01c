"""The metrics of the server, in the text format of Prometheus."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

__all__ = ["Metrics"]

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_POINTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """The metrics of `/metrics`, in a separate registry, so that a process can run several apps.

    With several workers, each reports the sums over all of them.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        options: dict[str, Any] = {"registry": self.registry, "namespace": "snm"}
        self.requests = Counter("requests", "Requests answered", ["path", "status"], **options)
        self.seconds = Histogram(
            "request_seconds", "Seconds to an answer", ["path"], buckets=_SECONDS, **options
        )
        self.batches = Histogram("batch_points", "Points of a batch", buckets=_POINTS, **options)
        self.waiting = Gauge(
            "waiting_requests", "Requests in the queue", multiprocess_mode="livesum", **options
        )

    def text(self) -> bytes:
        """The metrics in the text format of Prometheus."""
        registry = self.registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:  # there are several workers
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        return generate_latest(registry)
