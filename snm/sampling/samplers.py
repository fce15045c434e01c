"""The samplers by the names that the setting `sampler` takes."""

from __future__ import annotations

from snm.sampling.frequency import FrequencySampler
from snm.sampling.in_batch import InBatchSampler
from snm.sampling.protocol import Sampler
from snm.sampling.uniform import UniformSampler

__all__ = ["SAMPLERS", "TESTED"]

SAMPLERS: dict[str, type[Sampler]] = {
    "uniform": UniformSampler,
    "frequency": FrequencySampler,
    "in-batch": InBatchSampler,
}

TESTED = frozenset(SAMPLERS.values())
"""The samplers of this package, whose draws have tests; a run checks a draw of any other."""
