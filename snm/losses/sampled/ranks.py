"""The rank weights of a training step, from `LossOptions` and the sample sizes."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from snm.losses.sampled.options import RANK_SHAPES, LossOptions, RankShape, SampleSizes
from snm.losses.theta import Vector

__all__ = ["RANK_WEIGHT_OPTIONS", "RankWeights"]

RANK_WEIGHT_OPTIONS = (
    "vartheta",
    "weight_scale",
    "retrieval_k",
    "power_alpha",
    "tail_epsilon",
    "subsample_draws",
    "negative_weight",
)
"""The options that a `RankShape` can read."""


@dataclasses.dataclass(frozen=True)
class RankWeights:
    """The weights vartheta of one training step, in two parts; hashable.

    With the B sampled negatives hardest first, and margin m_j of the one at rank j,

        sum_{j <= B} vartheta_j phi(m_j)
            = sum_{j <= k'} (vartheta_j - tail) phi(m_j) + tail * sum_{j <= B} phi(m_j),

    because vartheta_j is `tail` for all j > k'. The first sum, with `mined_weights`, needs only the
    mined negatives (`Bowl.value`). The second needs no ranks, and is computed over all sampled
    negatives in blocks (the dense form). Usually `tail` is 0. If all B weights are equal
    (`uses_all_negatives`), `tail` is this weight, and the first sum is empty.

    Attributes:
      options: the parameters. Options that the weights do not depend on are reset to their
        defaults, so that they do not affect equality and hash.
      sizes: K, B and k'.
      shape: `RANK_SHAPES[options.vartheta]`. It is part of equality and hash, so that a new object
        under the same name never reuses a compiled program of the old one.
    """

    options: LossOptions
    sizes: SampleSizes
    shape: RankShape = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        kept = {name: getattr(self.options, name) for name in RANK_WEIGHT_OPTIONS}
        object.__setattr__(self, "options", LossOptions(**kept))
        object.__setattr__(self, "shape", RANK_SHAPES[self.options.vartheta])

    @property
    def uses_all_negatives(self) -> bool:
        """Whether all sampled negatives have equal weights, as in negative sampling."""
        return self.sizes.mined == self.sizes.sampled and self.shape.equal_if_all_mined

    @property
    def num_draws(self) -> int:
        """How many ranks are drawn per term; 0 if the loss sums over all ranks."""
        return self.options.subsample_draws if self.shape.drawn else 0

    @property
    def mined_weights(self) -> npt.NDArray[np.float32]:
        """The weights of the mined ranks minus `tail`: float32 [k'].

        Empty if `uses_all_negatives`.
        """
        if self.uses_all_negatives:
            return np.zeros(0, np.float32)
        return (self._scaled_weights() - self.tail).astype(np.float32)

    @property
    def tail(self) -> float:
        """The weight of every sampled negative; mined ones have `mined_weights` in addition."""
        first = float(self._scaled_weights()[0])
        return first if self.uses_all_negatives else first * self.shape.tail(self.options)

    def all_weights(self) -> Vector:
        """The weights of all B ranks, float64 [B]."""
        weights = np.full(self.sizes.sampled, self.tail)
        weights[: len(self.mined_weights)] += self.mined_weights
        return weights

    def count_factors(self, counts: jax.Array) -> jax.Array:
        """Factors of the weights for terms whose number of negatives is not B.

        The total weight of a term's hardest k' negatives (or of all, if it has fewer) stays that of
        k' mined of B sampled. If all weights are equal, they become 1 over the term's number of
        negatives.

        Args:
          counts: float32 [...], the number of negatives of each term; 0 counts as 1.

        Returns:
          float32 [...]: above 0, or 0 if all weights are 0.

        Example:
          >>> weights = RankWeights(LossOptions(), SampleSizes(num_labels=20, sampled=8, mined=4))
          >>> weights.count_factors(jnp.array([8.0, 2.0, 0.0]))
          Array([1., 2., 4.], dtype=float32)
        """
        if self.uses_all_negatives:
            return self.sizes.sampled / jnp.maximum(counts, 1)
        sums = np.cumsum(self._scaled_weights())
        factors = jnp.asarray(sums[-1] / np.maximum(sums, np.finfo(np.float64).tiny), jnp.float32)
        return factors[jnp.clip(counts.astype(jnp.int32), 1, len(sums)) - 1]

    def _scaled_weights(self) -> Vector:
        """The weights of ranks 1 .. k', times `negative_weight`: float64 [k']."""
        return self.shape.weights(self.options, self.sizes) * self.options.negative_weight
