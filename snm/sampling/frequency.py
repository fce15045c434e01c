"""Sampling with replacement in proportion to label frequencies."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from snm.sampling.protocol import SamplerInputs
from snm.sampling.sample import Array, Sample, host_rng

__all__ = ["FrequencySampler"]


@dataclasses.dataclass(frozen=True, eq=False)
class FrequencySampler:
    """Draws labels with replacement in proportion to (frequency + 1) ** power.

    The added 1 keeps labels without training points drawable, so that every log q is finite. Power
    1 follows the frequencies, 0 is uniform, and 0.75 is the choice of Mikolov et al. (2013). The
    cumulative sums take O(K) time, once.

    Attributes:
      label_frequency: int [K], training points that carry each label.
      power: >= 0.
      size: draws a step, and S: slots beyond the distinct labels stay unused.
      seed: the seed of the run, >= 0.
      log_q: float64 [K], the logarithm of each label's probability in one draw.

    Raises:
      ValueError: no labels, a negative frequency, a negative power, or `size` below 1.
    """

    needs_label_frequency: ClassVar[bool] = True
    needs_batch_positives: ClassVar[bool] = False
    on_device: ClassVar[None] = None  # a binary search over K sums a draw suits the host

    label_frequency: Array
    power: float = 1.0
    size: int = dataclasses.field(default=1, kw_only=True)
    seed: int = dataclasses.field(default=0, kw_only=True)
    log_q: np.ndarray[Any, Any] = dataclasses.field(init=False, repr=False)
    _cumulative: np.ndarray[Any, Any] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        frequency = np.asarray(self.label_frequency, np.float64)
        if frequency.ndim != 1 or not frequency.size or frequency.min() < 0 or self.power < 0:
            raise ValueError(
                "label_frequency must be one non-negative count a label, and power >= 0; "
                f"found shape {frequency.shape}, power {self.power}"
            )
        if self.size < 1:
            raise ValueError(f"size must be at least 1, found {self.size}")
        weights = (frequency + 1.0) ** self.power
        # A frozen dataclass sets what it derives from its fields this way.
        object.__setattr__(self, "log_q", np.log(weights / weights.sum()))
        object.__setattr__(self, "_cumulative", np.cumsum(weights))

    @classmethod
    def build(cls, inputs: SamplerInputs) -> FrequencySampler:
        """The sampler of a run."""
        return cls(inputs.frequency, inputs.frequency_power, size=inputs.size, seed=inputs.seed)

    @property
    def num_labels(self) -> int:
        """K."""
        return len(self.log_q)

    def on_host(self, step: int, positives: np.ndarray[Any, Any] | None = None) -> Sample:
        """Draws `size` labels with replacement in O(size log K); a repeated label takes one slot.

        With c_j draws of label j, slot j carries log(c_j) - log(size q_j) (Bengio and Senecal,
        2008; "logQ" of Yi et al., 2019). So sum_slots exp(log_weights) f(ids) is the mean over
        the draws of f / q, whose expectation is the sum of f over all K labels: the sampled
        partition function is unbiased. That holds without the positive's slot too, so there is
        no surplus label: `drop` is S.

        Args:
          step: the training step, >= 0.
          positives: not read.

        Returns:
          A sample with S = `size` NumPy slots.
        """
        size = self.size
        points = host_rng(self.seed, step).random(size) * self._cumulative[-1]
        drawn = np.searchsorted(self._cumulative, points, side="right")
        # The product may round up to the total, which lies past the last label.
        drawn = np.minimum(drawn, self.num_labels - 1)
        distinct, counts = np.unique(drawn, return_counts=True)
        ids = np.full(size, self.num_labels, np.int32)
        ids[: len(distinct)] = distinct
        log_weights = np.full(size, -np.inf, np.float32)
        log_weights[: len(distinct)] = np.log(counts / size) - self.log_q[distinct]
        return Sample(ids, np.asarray(size, np.int32), log_weights)
