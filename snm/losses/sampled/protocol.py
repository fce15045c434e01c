"""The interface between the classification head and its losses.

A training step scores the positives and a sample of negatives, mines the hardest, and passes their
scores to a loss object, which returns a value that JAX differentiates. Two optional forms make this
faster: a dense form, if every sampled negative has the same weight, and a threshold form, if the
mined negatives have equal weights, so that their order does not matter.

A loss takes scores as arrays. It does not depend on labels, tables or devices.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import jax

from snm.losses.sampled.options import LossOptions, SampleSizes

__all__ = [
    "BlockScores",
    "DenseForm",
    "Draw",
    "HeadLoss",
    "LabelShards",
    "TermScores",
    "ThresholdForm",
]


class TermScores(NamedTuple):
    """The scores of the terms of a batch. A term is one positive label of one point.

    Attributes:
      positive: float32 [T], the score of each term's positive.
      rows: int32 [T], non-decreasing: the point of the batch that each term belongs to.
      weights: float32 [T], of each term in the loss; 0 marks padding.
      negative: float32 [T, m], scores of the mined negatives, hardest first if the loss has
        `needs_sorted`. If it has `scores_per_point`: [n, m], one row per point.
      where: bool, in the shape of `negative`; False marks padding and excluded labels.
      log_weights: float32, in the shape of `negative`, or None: the sampler's logQ correction.
      counts: float32 [T], the number of negatives of each term, mined or not; None if that is B.
    """

    positive: jax.Array
    rows: jax.Array
    weights: jax.Array
    negative: jax.Array
    where: jax.Array
    log_weights: jax.Array | None = None
    counts: jax.Array | None = None


class BlockScores(NamedTuple):
    """The scores of a block of sampled labels for all terms of a batch.

    Attributes:
      positive: float32 [T], as in `TermScores`.
      weights: float32 [T], as in `TermScores`.
      scores: float32 [T, size]; masked where a label is not a negative of the term.
      log_weights: float32 [size] or None, of the block's labels.
      counts: float32 [T] or None, as in `TermScores`.
    """

    positive: jax.Array
    weights: jax.Array
    scores: jax.Array
    log_weights: jax.Array | None
    counts: jax.Array | None = None


Draw = Callable[[Callable[[jax.Array, tuple[int, ...]], jax.Array]], jax.Array]
"""`draw(sample)` calls `sample(key, shape)` for all terms of the batch, and returns the draws for
the terms of this device."""


class LabelShards(Protocol):
    """Collectives over the shards of the class table; on one device they return their argument."""

    def sum(self, x: jax.Array) -> jax.Array:
        """The sum over the shards."""

    def max(self, x: jax.Array) -> jax.Array:
        """The maximum over the shards."""


class DenseForm(Protocol):
    """A loss in which all sampled negatives have the same weight, computed in blocks of scores.

    The step passes over the sample once, block by block, to update the rows. If the gradient of the
    positive depends on the negatives, a first pass only reads: `start`, then `add` for each block,
    then `finish`.
    """

    @property
    def needs_first_pass(self) -> bool:
        """Whether the read-only first pass is needed."""

    def start(self, positive: jax.Array) -> jax.Array:
        """The initial carry [T] of the first pass."""

    def add(self, carry: jax.Array, block: BlockScores) -> jax.Array:
        """The carry after a block."""

    def finish(
        self, carry: jax.Array, positive: jax.Array, weights: jax.Array, shards: LabelShards
    ) -> tuple[jax.Array, jax.Array, Any]:
        """The loss so far (scalar), the gradient [T] of the positives, the context of `block`."""

    def block(self, context: Any, block: BlockScores) -> tuple[jax.Array, jax.Array]:
        """Loss (scalar) and gradient [T, size] of a block of scores."""

    def bound(self, highest: jax.Array, counts: jax.Array | None) -> jax.Array | None:
        """An upper bound of the loss of one negative whose score is at most `highest`.

        The step checks before its first write that the loss will be finite. If the bound is not
        finite, it computes the loss instead. None if the first pass has the loss already, or if
        there is no such bound. `counts` is as in `TermScores`.
        """


class ThresholdForm(Protocol):
    """A loss whose mined negatives have equal weights, given as a mask of the scores."""

    @property
    def per_point(self) -> bool:
        """Whether the terms of a point have the same gradient of its negatives, up to a factor.

        If not, the form can only be used with `positives='one'`.
        """

    def row_sums(
        self,
        chosen: jax.Array,
        scores: jax.Array,
        positive: jax.Array | None,
        log_weights: jax.Array | None,
    ) -> jax.Array:
        """The sum over each row of mined scores that the loss needs: float32 [n].

        Args:
          chosen: float32 [n, S], 1 for mined scores, 0 for others, a fraction for ties.
          scores: float32 [n, S].
          positive: float32 [n] if each point has one term, otherwise None.
          log_weights: float32 [S] or None.
        """

    def gradients(
        self,
        terms: TermScores,
        chosen: jax.Array,
        sums: jax.Array,
        per_row: Callable[[jax.Array], jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Loss (scalar), gradients [T] of the positives' and [n, S] of the negatives' scores.

        Args:
          terms: with `negative` [n, S], the scores of all slots, and `log_weights` [S] or None.
          chosen: as in `row_sums`.
          sums: float32 [n], from `row_sums`.
          per_row: sums values [T] over the terms of each point: [n].
        """


class HeadLoss(abc.ABC):
    """Base class of the losses of the head; hashable, static under `jax.jit`.

    Objects with the same parameters must be equal, as those of a frozen dataclass are. Otherwise
    each object has compiled programs of its own, also one that was pickled.

    A loss must define `name` and `value`. The defaults of the rest suit a loss of single terms that
    mines its negatives and has no parameters.

    Attributes:
      name: as on the command line, its key in `LOSSES`.
      scores_per_point: whether `TermScores.negative` is [n, m], one row per point, and not [T, m].
      uses_log_weights: whether it adds the sampler's logQ correction to the negatives' scores.
      has_rank_weights: whether it weights unmasked negatives by rank, with weight 0 past rank k'.
        Samples then need distinct labels, and `TermScores` has `counts` if their number depends on
        the batch. Otherwise the step masks the negatives past rank k'.
    """

    name: str
    scores_per_point: ClassVar[bool] = False
    uses_log_weights: ClassVar[bool] = False
    has_rank_weights: ClassVar[bool] = False

    @abc.abstractmethod
    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The weighted sum of the losses of terms, or lists, and mined negatives: float32 scalar.

        Args:
          scores: the scores of the terms.
          draw: makes random draws; None if the step has no key.
        """

    def configured(self, options: LossOptions, sizes: SampleSizes) -> HeadLoss:
        """This loss with its parameters from the options, for the given sample sizes."""
        return self

    @property
    def takes_exponentials(self) -> bool:
        """Whether it exponentiates scores, so that their scale acts as an inverse temperature.

        `Config` reads it from the configured loss: with `--score-scale auto`, such a loss trains at
        a scale above 1, which may be learned, and others at 1. A run notes that a loss of your own
        does not say it. `Config` also derives the option `list_grade` from the scale.
        """
        return False

    @property
    def auto_learning_rate(self) -> float:
        """The rate of `--learning-rate auto`: 20 was best on held-out points of `citeulike-t-14k`.

        `Config` reads it from the loss configured for the sample sizes of the last step.
        """
        return 20.0

    @property
    def option_names(self) -> frozenset[str]:
        """The names of the options (fields of `LossOptions`) that `configured` reads.

        `Config` rejects a non-default value of an option that its loss does not read.
        """
        return frozenset()

    @property
    def listwise(self) -> bool:
        """Whether it is a listwise learning-to-rank loss.

        It affects settings, not the step: with all positives of a point, `Config` requires
        `--exclude all`, and `snm compare` trains such a loss with all positives.
        """
        return self.scores_per_point

    @property
    def needs_sorted(self) -> bool:
        """Whether the mined negatives must come hardest first."""
        return False

    @property
    def uses_all_negatives(self) -> bool:
        """Whether all sampled negatives have the same weight, so that none is mined."""
        return False

    @property
    def dense(self) -> DenseForm | None:
        """The part of the loss in which all sampled negatives have the same weight, or None."""
        return None

    @property
    def threshold(self) -> ThresholdForm | None:
        """The form for mined negatives of equal weight, or None."""
        return None
