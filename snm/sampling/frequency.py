"""Sampling with replacement in proportion to label frequencies."""

from __future__ import annotations

import numpy as np

from snm.sampling.sample import Array, Sample, _host_rng

__all__ = ["FrequencySampler"]


class FrequencySampler:
    """Draws labels with replacement in proportion to (frequency + 1) ** power.

    Adding one keeps a label that the training set never shows drawable, so that every log q is
    finite. power 1 follows the frequencies, 0 is uniform, 0.75 is the choice of Mikolov et al.
    (2013).

    Attributes:
      num_labels: K.
      log_q: float64 [K], the logarithm of each label's probability in one draw.
    """

    def __init__(self, label_frequency: Array, power: float = 1.0):
        """Sets up the cumulative sums: O(K), once.

        Args:
          label_frequency: int [K], training points that carry each label.
          power: >= 0.

        Raises:
          ValueError: no labels, a negative frequency, or a negative power.
        """
        frequency = np.asarray(label_frequency, np.float64)
        if frequency.ndim != 1 or not frequency.size or frequency.min() < 0 or power < 0:
            raise ValueError(
                "label_frequency must be one non-negative count a label, and power >= 0; "
                f"found shape {frequency.shape}, power {power}"
            )
        weights = (frequency + 1.0) ** power
        self.num_labels = len(frequency)
        self.log_q = np.log(weights / weights.sum())
        self._cumulative = np.cumsum(weights)

    def draw(self, seed: int, step: int, size: int) -> Sample:
        """Draws `size` labels with replacement in O(size log K); a repeated label takes one slot.

        With c_j draws of label j, slot j carries log(c_j) - log(size q_j) (Bengio and Senecal,
        2008; "logQ" of Yi et al., 2019). So sum_slots exp(log_weights) f(ids) is the mean over
        the draws of f / q, whose expectation is the sum of f over all K labels: the sampled
        partition function is unbiased. That holds without the positive's slot too, so there is
        no surplus label: `drop` is S.

        Args:
          seed: the seed of the run, >= 0.
          step: the training step, >= 0.
          size: draws, and S: slots beyond the distinct labels are left over.

        Returns:
          A sample with S = `size` NumPy slots.

        Raises:
          ValueError: `size` is below 1.
        """
        if size < 1:
            raise ValueError(f"size must be at least 1, found {size}")
        points = _host_rng(seed, step).random(size) * self._cumulative[-1]
        drawn = np.searchsorted(self._cumulative, points, side="right")
        # The product may round up to the total, which lies past the last label.
        drawn = np.minimum(drawn, self.num_labels - 1)
        distinct, counts = np.unique(drawn, return_counts=True)
        ids = np.full(size, self.num_labels, np.int32)
        ids[: len(distinct)] = distinct
        log_weights = np.full(size, -np.inf, np.float32)
        log_weights[: len(distinct)] = np.log(counts / size) - self.log_q[distinct]
        return Sample(ids, np.asarray(size, np.int32), log_weights)
