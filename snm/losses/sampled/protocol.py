"""What the classification head asks of a loss.

A training step scores the positives and a sample of negatives, mines the hardest, and passes their
scores to a loss object. The object answers with a value that JAX differentiates. Two optional forms
make it faster: a dense form, where every sampled negative has the same weight, and a threshold
form, where the mined negatives have the same weight, so that their order does not matter.

No object knows of labels, tables or devices; the scores arrive as arrays.
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
    """The scores of the terms of a batch: each term is one positive label of one point.

    Attributes:
      positive: float32 [T], the score of each term's positive.
      rows: int32 [T], non-decreasing: the point of the batch that each term belongs to.
      weights: float32 [T], of each term in the loss; 0 marks padding.
      negative: float32 [T, m], scores of the mined negatives, hardest first where the loss has
        `needs_sorted`. [n, m], one row a point, where it has `scores_per_point`.
      where: bool, the shape of `negative`: which of them are negatives.
      log_weights: float32, the shape of `negative`, or None: the logQ correction of the sampler.
      counts: float32 [T], how many negatives each term has, mined or not; None where that is B.
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
      weights: float32 [T], likewise.
      scores: float32 [T, size]; masked where a label is no negative of the term.
      log_weights: float32 [size] or None, of the block's labels.
      counts: float32 [T] or None, as in `TermScores`.
    """

    positive: jax.Array
    weights: jax.Array
    scores: jax.Array
    log_weights: jax.Array | None
    counts: jax.Array | None = None


Draw = Callable[[Callable[[jax.Array, tuple[int, ...]], jax.Array]], jax.Array]
"""Calls `sample(key, shape)` for all terms of the batch; returns the draws of this device's."""


class LabelShards(Protocol):
    """Collectives over the shards of the class table; the identity on one device."""

    def sum(self, x: jax.Array) -> jax.Array:
        """The sum over the shards."""

    def max(self, x: jax.Array) -> jax.Array:
        """The maximum over the shards."""


class DenseForm(Protocol):
    """A loss that every sampled negative enters with the same weight, taken in blocks of scores.

    The step walks over the sample once to update the rows. Where the gradient of the positive
    depends on the negatives, a walk that only reads comes first: `start`, then `add` for each
    block, then `finish`.
    """

    @property
    def reads_first(self) -> bool:
        """Whether that first walk is needed."""

    def start(self, positive: jax.Array) -> jax.Array:
        """The carry [T] of the first walk."""

    def add(self, carry: jax.Array, block: BlockScores) -> jax.Array:
        """The carry after a block."""

    def finish(
        self, carry: jax.Array, positive: jax.Array, weights: jax.Array, shards: LabelShards
    ) -> tuple[jax.Array, jax.Array, Any]:
        """Loss so far (scalar), gradient [T] of the positives' scores, what `block` needs of it."""

    def block(self, context: Any, block: BlockScores) -> tuple[jax.Array, jax.Array]:
        """Loss (scalar) and gradient [T, size] of a block of scores."""

    def bound(self, highest: jax.Array, counts: jax.Array | None) -> jax.Array | None:
        """At least the loss of one negative whose score is at most `highest`.

        The step asks before it writes a row, to know that the loss will be finite; where the bound
        is not, it computes the loss. None where the loss is known by then, or has no such bound.
        `counts` is as in `TermScores`.
        """


class ThresholdForm(Protocol):
    """A loss whose mined negatives all have the same weight, given as a mask of the scores."""

    @property
    def per_point(self) -> bool:
        """Whether all terms of a point share the gradient of its negatives up to a factor.

        If not, the form serves `positives='one'` only.
        """

    def row_sums(
        self,
        chosen: jax.Array,
        scores: jax.Array,
        positive: jax.Array | None,
        log_weights: jax.Array | None,
    ) -> jax.Array:
        """What the loss needs of each row: float32 [n].

        Args:
          chosen: float32 [n, S], 1 for mined scores, 0 for others, a share for ties.
          scores: float32 [n, S].
          positive: float32 [n], where each point has one term; None elsewhere.
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
          sums: what `row_sums` returned.
          per_row: adds up values [T] of the terms of each point: [n].
        """


class HeadLoss(abc.ABC):
    """A loss that the head can train; hashable, static under `jax.jit`.

    A loss needs a `name` and a `value`. The rest has defaults, which fit a loss of single terms
    that mines its negatives and has no parameters.

    Attributes:
      name: as on the command line.
      scores_per_point: whether `TermScores.negative` is [n, m], one row a point; otherwise [T, m].
      uses_log_weights: whether it adds the logQ correction of a sampler to negatives' scores.
      stops_at_mined: whether its weights belong to ranks, and end after k' ranks of unmasked
        negatives. If not, the step masks those past k'. If so, samples need distinct labels, and
        `TermScores` has `counts` where a batch decides how many there are.
    """

    name: str
    scores_per_point: ClassVar[bool] = False
    uses_log_weights: ClassVar[bool] = False
    stops_at_mined: ClassVar[bool] = False

    @abc.abstractmethod
    def value(self, scores: TermScores, draw: Draw | None = None) -> jax.Array:
        """The weighted sum over the terms (or lists) on their mined negatives: float32 scalar.

        Args:
          scores: of the terms.
          draw: random draws, for a loss that asks for them.
        """

    def configured(self, options: LossOptions, sizes: SampleSizes) -> HeadLoss:
        """The loss that trains: this one with its part of the options, for some sample sizes."""
        return self

    @property
    def takes_exponentials(self) -> bool:
        """Whether it takes exponentials of scores: the scale is then an inverse temperature.

        Settings ask the configured loss. The option `list_grade` follows from the answer, and has
        its default until then.
        """
        return False

    @property
    def auto_learning_rate(self) -> float:
        """The rate of `--learning-rate auto`: 20, from held-out points of `citeulike-t-14k`.

        Settings ask the loss that is configured for the sizes of the last step.
        """
        return 20.0

    @property
    def reads(self) -> frozenset[str]:
        """The options that `configured` reads, names of fields of `LossOptions`.

        `Config` refuses another value than the default for an option that its loss does not read.
        """
        return frozenset()

    @property
    def listwise(self) -> bool:
        """Whether it is a learning-to-rank loss, whose unit is the list of a point.

        It decides on settings, not on the step: with all positives of a point, `Config` asks for
        `--exclude all`, and `snm compare` trains such a loss on these lists.
        """
        return self.scores_per_point

    @property
    def needs_sorted(self) -> bool:
        """Whether the mined negatives must come hardest first."""
        return False

    @property
    def weighs_all_alike(self) -> bool:
        """Whether all sampled negatives weigh the same: none is mined, and `dense` has all."""
        return False

    @property
    def dense(self) -> DenseForm | None:
        """The part of the loss that all sampled negatives enter with one weight."""
        return None

    @property
    def threshold(self) -> ThresholdForm | None:
        """The form for mined negatives of one weight, or None."""
        return None
