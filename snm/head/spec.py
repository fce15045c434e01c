"""What the head computes: the sample, the loss and its weights, as static settings of a step."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from snm.losses import mined_lists as lists
from snm.losses import rank_weights as weights
from snm.losses import surrogates

__all__ = ["HeadSpec"]


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """What the head computes; hashable, static under `jax.jit`.

    Attributes:
      num_labels: K.
      sampled: B, the negatives drawn for each term; K - 1 stands for all other labels.
      mined: k', how many of them enter the loss; B is negative sampling.
      loss: bowl (Definition 4), powl (Definition 3), softmax, or a name of `lists.LIST_LOSSES`:
        then the positives of a point and its mined negatives are one list.
      list_loss: what a loss of lists takes besides; None for the others.
      phi: surrogate of the ordered weighted losses, a name of `surrogates.SURROGATES`.
      ramp_rho: margin of the ramp surrogate.
      vartheta: shape of the weights over ranks: top, power-law, epsilon-tail or subsample.
      weight_scale: mean (the mined negatives weigh 1 together) or surrogate ((K-1)/(kB) each).
      retrieval_k: k of the retrieval loss, which only the surrogate scale needs.
      power_alpha: exponent of power-law.
      tail_epsilon: weight of each rank past k' over that of a mined one, for epsilon-tail.
      subsample_draws: negatives drawn from the mined ones, for subsample.
      negative_weight: multiplies the weight of every negative (ordered weighted losses).
      exclude: positive (the term's own, as in the paper) or all (every known label of the point:
        another loss, in which known positives are never negatives).
      positives: one term a point, or all labels of a point as terms.
      row_optimizer: a name of `snm.tables.optimizers.ROW_OPTIMIZERS`.
      bias: add a learned bias a label to its score.
      learn_scale: learn the multiplier of the scores.
      compute_dtype: type of the factors of matrix products; sums are float32.
      table_dtype: of the class rows, float32 or bfloat16.
    """

    num_labels: int
    sampled: int
    mined: int
    loss: str = "bowl"
    list_loss: lists.ListLoss | None = None
    phi: str = "hinge"
    ramp_rho: float = 1.0
    vartheta: str = "top"
    weight_scale: str = "mean"
    retrieval_k: int = 1
    power_alpha: float = 1.0
    tail_epsilon: float = 0.01
    subsample_draws: int = 4
    negative_weight: float = 1.0
    exclude: str = "positive"
    positives: str = "one"
    row_optimizer: str = "sgd"
    bias: bool = False
    learn_scale: bool = False
    compute_dtype: str = "float32"
    table_dtype: str = "float32"

    @property
    def surrogate(self) -> surrogates.Surrogate:
        """The function phi."""
        if self.phi == "ramp":
            return functools.partial(surrogates.ramp, rho=self.ramp_rho)
        return surrogates.SURROGATES[self.phi]

    @property
    def samples_all(self) -> bool:
        """Whether every label but the positive is a negative, so that nothing is drawn."""
        return self.sampled == self.num_labels - 1

    @property
    def mines_all(self) -> bool:
        """Whether the loss takes all of the sample with one weight: no ranks, so no mining."""
        alike = self.list_loss is None and self.vartheta in ("top", "epsilon-tail")
        return self.mined == self.sampled and alike

    def rank_weights(self) -> tuple[np.ndarray, float]:
        """The weights of the mined ranks, and the weight that every sampled negative has besides.

        Returns:
          float32 [k'] and a float; their sum over a rank is vartheta of that rank.
        """
        scale: dict[str, Any] = dict(
            scale=self.weight_scale,
            sampled=self.sampled,
            num_labels=self.num_labels,
            retrieval_k=self.retrieval_k,
        )
        head = weights.top(self.mined, **scale) * self.negative_weight
        if self.vartheta == "power-law":
            head = weights.power_law(self.mined, self.power_alpha, **scale) * self.negative_weight
        if self.mines_all:
            return np.zeros(0, np.float32), float(head[0])
        tail = float(head[0] * self.tail_epsilon) if self.vartheta == "epsilon-tail" else 0.0
        return (head - tail).astype(np.float32), tail
