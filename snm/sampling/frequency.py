"""Sampling with replacement in proportion to label frequencies."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from snm.sampling.protocol import SamplerInputs
from snm.sampling.sample import Array, Sample, host_rng, sample_of_draws

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
    uniform: ClassVar[bool] = False
    with_replacement: ClassVar[bool] = True
    option_names: ClassVar[frozenset[str]] = frozenset({"frequency_power"})
    on_device: ClassVar[None] = None  # a draw is a binary search over K sums, which suits the host

    label_frequency: Array
    power: float
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
        logs = self.power * np.log1p(frequency)
        weights = np.exp(logs - logs.max())  # a large power of a frequency would overflow
        # A frozen dataclass sets what it derives from its fields this way.
        object.__setattr__(self, "log_q", logs - logs.max() - np.log(weights.sum()))
        object.__setattr__(self, "_cumulative", np.cumsum(weights))

    @classmethod
    def build(cls, inputs: SamplerInputs) -> FrequencySampler:
        """The sampler of a run."""
        if inputs.label_frequency is None:
            raise ValueError("this sampler needs label_frequency, int [num_labels]; found None")
        power = inputs.options.get("frequency_power", 0.75)
        return cls(inputs.label_frequency, power, size=inputs.size, seed=inputs.seed)

    @property
    def num_labels(self) -> int:
        """K."""
        return len(self.log_q)

    def on_host(self, step: int, positives: np.ndarray[Any, Any] | None = None) -> Sample:
        """Draws `size` labels with replacement in O(size log K); see `sample_of_draws`.

        Args:
          step: the training step, >= 0.
          positives: not read.

        Returns:
          A sample with S = `size` NumPy slots.
        """
        targets = host_rng(self.seed, step).random(self.size) * self._cumulative[-1]
        drawn = np.searchsorted(self._cumulative, targets, side="right")
        # The product may round up to the total, which lies past the last label.
        drawn = np.minimum(drawn, self.num_labels - 1)
        return sample_of_draws(drawn, self.num_labels, lambda labels: self.log_q[labels])
