"""The rank weights of a training step, as `LossOptions` describe them for some sample sizes."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from snm.losses.rank_weights import Vector
from snm.losses.sampled.options import RANK_SHAPES, LossOptions, RankShape, SampleSizes

__all__ = ["OF_WEIGHTS", "RankWeights"]

OF_WEIGHTS = (
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

    because vartheta_j is `tail` for all j > k'. The first sum has `mined_weights` and needs the
    mined negatives alone (`Bowl.value`); the second needs no ranks, and goes over all sampled ones
    in blocks (the dense form). As a rule, `tail` is 0. Where all B weigh the same
    (`equal_sampled`), it is their weight, and the first sum is empty.

    Attributes:
      options: the parameters. Those that no weight depends on are set to their defaults, so that
        they make no difference to equality and hash.
      sizes: K, B and k'.
      shape: that of `options.vartheta`. It is part of equality and hash: a new object under a name
        in `RANK_SHAPES` never reuses a program of the old one.
    """

    options: LossOptions
    sizes: SampleSizes
    shape: RankShape = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        kept = {name: getattr(self.options, name) for name in OF_WEIGHTS}
        object.__setattr__(self, "options", LossOptions(**kept))
        object.__setattr__(self, "shape", RANK_SHAPES[self.options.vartheta])

    @property
    def equal_mined(self) -> bool:
        """Whether the mined weigh the same and the others nothing."""
        return self.shape.equal_over_mined

    @property
    def equal_sampled(self) -> bool:
        """Whether all sampled negatives weigh the same, as in negative sampling."""
        return self.sizes.mined == self.sizes.sampled and self.shape.equal_if_all_mined

    @property
    def drawn_ranks(self) -> int:
        """How many ranks are drawn; 0 where the loss sums over all."""
        return self.options.subsample_draws if self.shape.drawn else 0

    @property
    def mined_weights(self) -> npt.NDArray[np.float32]:
        """What the mined ranks weigh beyond `tail`: float32 [k'], empty for `equal_sampled`."""
        if self.equal_sampled:
            return np.zeros(0, np.float32)
        return (self._of_ranks() - self.tail).astype(np.float32)

    @property
    def tail(self) -> float:
        """What every sampled negative weighs; the weight of a mined one adds to it."""
        first = float(self._of_ranks()[0])
        return first if self.equal_sampled else first * self.shape.tail(self.options)

    def of_sample(self) -> Vector:
        """The weights of all B ranks, float64 [B]."""
        weights = np.full(self.sizes.sampled, self.tail)
        weights[: len(self.mined_weights)] += self.mined_weights
        return weights

    def shares(self, counts: jax.Array) -> jax.Array:
        """What every weight is multiplied by where terms have other numbers of negatives than B.

        The weights of the hardest k', or of as many as there are, then add up to what those of k'
        of B do. Where all weigh the same, each weighs 1 over their number.

        Args:
          counts: float32 [...], negatives of each term; 0 is taken as 1.

        Returns:
          float32 [...], all above 0, or 0 where no rank weighs anything.

        Example:
          >>> weights = RankWeights(LossOptions(), SampleSizes(num_labels=20, sampled=8, mined=4))
          >>> weights.shares(jnp.array([8.0, 2.0, 0.0]))
          Array([1., 2., 4.], dtype=float32)
        """
        if self.equal_sampled:
            return self.sizes.sampled / jnp.maximum(counts, 1)
        sums = np.cumsum(self._of_ranks())
        shares = jnp.asarray(sums[-1] / np.maximum(sums, np.finfo(np.float64).tiny), jnp.float32)
        return shares[jnp.clip(counts.astype(jnp.int32), 1, len(sums)) - 1]

    def _of_ranks(self) -> Vector:
        return self.shape.of_ranks(self.options, self.sizes) * self.options.negative_weight
