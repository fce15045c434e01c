"""The rank weights of a training step: a shape of `--vartheta` with its sizes, as one object."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from snm.losses.rank_weights import Vector, power_law, top

if TYPE_CHECKING:
    from snm.losses.sampled.options import LossOptions, SampleSizes

__all__ = ["RANK_SHAPES", "RankShape", "RankWeights"]


@dataclasses.dataclass(frozen=True)
class RankShape:
    """How the weights fall over the ranks of the mined negatives.

    Attributes:
      of_ranks: from the `RankWeights` to the weights of ranks 1 .. k', float64 [k'].
      tail: from the `RankWeights` to the weight of each rank past k', relative to a mined one's.
      equal: whether the k' ranks weigh the same and the others nothing, so that order is moot.
      level: whether all ranks weigh the same where k' = B.
      drawn: whether ranks are drawn in proportion to the weights instead of summed over.
    """

    of_ranks: Callable[[RankWeights], Vector]
    tail: Callable[[RankWeights], float] = lambda _: 0.0
    equal: bool = False
    level: bool = False
    drawn: bool = False


def _top(weights: RankWeights) -> Vector:
    return top(weights.num_mined, **weights.scaled())


def _power_law(weights: RankWeights) -> Vector:
    return power_law(weights.num_mined, weights.alpha, **weights.scaled())


RANK_SHAPES: dict[str, RankShape] = {
    "top": RankShape(_top, equal=True, level=True),
    "power-law": RankShape(_power_law),
    "epsilon-tail": RankShape(_top, tail=lambda weights: weights.epsilon, level=True),
    "subsample": RankShape(_top, drawn=True),
}
"""Name of `--vartheta` -> shape."""


@dataclasses.dataclass(frozen=True)
class RankWeights:
    """The weights vartheta of one training step, in two parts; hashable.

    Attributes:
      shape: a name of `RANK_SHAPES`.
      num_mined: k'.
      sampled: B.
      num_labels: K.
      scale: mean or surrogate; see `snm.losses.rank_weights`.
      retrieval_k: k, for the surrogate scale.
      alpha: exponent of power-law.
      epsilon: of epsilon-tail.
      num_draws: of subsample.
      factor: multiplies every weight.
    """

    shape: str = "top"
    num_mined: int = 1
    sampled: int = 1
    num_labels: int = 2
    scale: str = "mean"
    retrieval_k: int = 1
    alpha: float = 1.0
    epsilon: float = 0.01
    num_draws: int = 4
    factor: float = 1.0

    @classmethod
    def of(cls, options: LossOptions, sizes: SampleSizes) -> RankWeights:
        """The weights that options describe, for a sample of some sizes."""
        return cls(
            shape=options.vartheta,
            num_mined=sizes.mined,
            sampled=sizes.sampled,
            num_labels=sizes.num_labels,
            scale=options.weight_scale,
            retrieval_k=options.retrieval_k,
            alpha=options.power_alpha,
            epsilon=options.tail_epsilon,
            num_draws=options.subsample_draws,
            factor=options.negative_weight,
        )

    def scaled(self) -> dict[str, Any]:
        """The arguments of `top` and its kin that say what the weights add up to."""
        return dict(
            scale=self.scale,
            sampled=self.sampled,
            num_labels=self.num_labels,
            retrieval_k=self.retrieval_k,
        )

    @property
    def equal_mined(self) -> bool:
        """Whether the mined weigh the same and the others nothing."""
        return RANK_SHAPES[self.shape].equal

    @property
    def equal_sampled(self) -> bool:
        """Whether all sampled negatives weigh the same, as in negative sampling."""
        return self.num_mined == self.sampled and RANK_SHAPES[self.shape].level

    @property
    def draws(self) -> int:
        """How many ranks are drawn; 0 where the loss sums over all."""
        return self.num_draws if RANK_SHAPES[self.shape].drawn else 0

    @property
    def mined(self) -> npt.NDArray[np.float32]:
        """What the mined ranks weigh beyond `tail`: float32 [k'], empty for `equal_sampled`."""
        if self.equal_sampled:
            return np.zeros(0, np.float32)
        return (self._of_ranks() - self.tail).astype(np.float32)

    @property
    def tail(self) -> float:
        """What every sampled negative weighs; the weight of a mined one adds to it."""
        first = float(self._of_ranks()[0])
        return first if self.equal_sampled else first * RANK_SHAPES[self.shape].tail(self)

    def of_sample(self) -> Vector:
        """The weights of all B ranks, float64 [B]."""
        weights = np.full(self.sampled, self.tail)
        weights[: len(self.mined)] += self.mined
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
          >>> RankWeights(num_mined=4, sampled=8, num_labels=20).shares(jnp.array([8.0, 2.0, 0.0]))
          Array([1., 2., 4.], dtype=float32)
        """
        if self.equal_sampled:
            return self.sampled / jnp.maximum(counts, 1)
        sums = np.cumsum(self._of_ranks())
        shares = jnp.asarray(sums[-1] / np.maximum(sums, np.finfo(np.float64).tiny), jnp.float32)
        return shares[jnp.clip(counts.astype(jnp.int32), 1, len(sums)) - 1]

    def _of_ranks(self) -> Vector:
        return RANK_SHAPES[self.shape].of_ranks(self) * self.factor
