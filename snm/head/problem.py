"""The scores of one step of the head (batch, sample, exclusions), its row step and its update."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from snm.distributed.collectives import Shard
from snm.head.plan import StepPlan, plan_step
from snm.head.spec import HeadSpec
from snm.head.state import Head, HeadBatch
from snm.machine.platform import of_platform
from snm.sampling.sample import Array, Sample, excluded_slots, slots_of
from snm.tables.products import entry_products
from snm.tables.rounding import as_float
from snm.tables.table import RowTable, SparseRows, entry_rows
from snm.topk.blocks import LabelRows, Masked

__all__ = [
    "HeadUpdate",
    "Problem",
    "RowStep",
    "ScoreGradients",
    "make_problem",
    "positive_block",
    "term_scores",
]

_LOOKS_UP = {"cpu": True, "gpu": False, "tpu": False}
"""By platform: whether positives' scores are looked up among those of all labels. On a CPU timed.
On others products of float32 may have fewer bits than these scores, which all have 24."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """A batch, its sample, and the slots that each term or point leaves out.

    Attributes:
      spec: of the head.
      table: class rows of this shard.
      bias: float32 [N] or None.
      queries: float32 [n, dim], already times the score multiplier.
      terms: positives as an [n, K] block; values are the weights of the terms in the loss.
      term_rows: int32 [T], the row of each term.
      term_slots: int32 [T], the slot of each term's positive, or -1.
      ids: int32 [S], the label of each slot, ascending; None if slot j is label j.
      log_weights: float32 [S] or None, added to the negatives of a softmax.
      excluded: int32 [T], the slot that each term leaves out; None where known labels are excluded.
      masked: pairs of row and slot that no term of the row may use; None where they are not.
      shard: which label rows are here.
      counts: float32 [T] or None, how many negatives each term has, where it is not B.
      key: of the draws of a loss that draws; None for others.
    """

    spec: HeadSpec
    table: RowTable
    bias: jax.Array | None
    queries: jax.Array
    terms: SparseRows
    term_rows: jax.Array
    term_slots: jax.Array
    ids: jax.Array | None
    log_weights: jax.Array | None
    excluded: jax.Array | None
    masked: Masked | None
    shard: Shard
    counts: jax.Array | None = None
    key: jax.Array | None = None

    @property
    def plan(self) -> StepPlan:
        """How the step is computed."""
        n = self.queries.shape[0]
        return plan_step(self.spec, n, self.num_slots, alone=self.shard.alone)

    @property
    def num_slots(self) -> int:
        """S, the sampled labels, or all."""
        return self.spec.num_labels if self.ids is None else self.ids.shape[0]

    @property
    def labels(self) -> LabelRows:
        """The slots as labels to score."""
        shard = self.shard
        rows = self.table.rows
        return LabelRows(rows, self.ids, self.bias, shard.first_row, shard.num_valid)

    @property
    def compute_dtype(self) -> jnp.dtype:
        """Type of the factors of matrix products."""
        return jnp.dtype(self.spec.compute_dtype)

    def own_slots(self) -> tuple[jax.Array, jax.Array]:
        """The range [first, end) of slots whose labels this shard holds."""
        first = jnp.asarray(self.shard.first_row)
        ends = jnp.stack([first, first + self.table.rows.shape[0]])
        start, end = jnp.searchsorted(self.ids, ends)  # type: ignore[arg-type]
        return start, end

    def local(self, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Rows of `labels` in this shard's table (0 if it has none), and whether it has one."""
        return self.shard.local(labels, self.table.rows.shape[0])


class RowStep(NamedTuple):
    """What the update of the class rows needs beside their gradient.

    Attributes:
      learning_rate: float32 scalar, of the class rows and of the biases.
      noise: uint32 scalar, the seed of stochastic rounding (see `snm.tables.rounding`); None for
        float32 rows.
      taken: bool scalar, False for a padding step at the end of a dispatch, which must write
        nothing; None for True.
    """

    learning_rate: jax.Array | float
    noise: jax.Array | None = None
    taken: jax.Array | None = None

    def may_write(self, queries: jax.Array) -> jax.Array:
        """Whether the step is to be taken, and its queries are finite: bool scalar."""
        finite = jnp.all(jnp.isfinite(queries))
        return finite if self.taken is None else finite & self.taken


class ScoreGradients(NamedTuple):
    """The loss, and its gradient with respect to the scores that it was computed from.

    Attributes:
      positive: float32 [T], the scores of the positives.
      loss: float32 scalar, of this device's terms; a dense form adds its part later.
      grad_positive: float32 [T].
      grad_mined: float32 [n, m]; 0 for masked ones.
      slots: int32 [n, m], which slot each mined score belongs to.
      grad_scores: float32 [n, size], the gradient of all slots, if the loss gives it as a matrix; m
        is 0 then. Otherwise None.
    """

    positive: jax.Array
    loss: jax.Array
    grad_positive: jax.Array
    grad_mined: jax.Array
    slots: jax.Array
    grad_scores: jax.Array | None = None

    @classmethod
    def of_all_slots(
        cls,
        positive: jax.Array,
        loss: jax.Array,
        grad_positive: jax.Array,
        grad_scores: jax.Array,
    ) -> ScoreGradients:
        """The gradient of all slots as a matrix."""
        n = grad_scores.shape[0]
        none = jnp.zeros((n, 0)), jnp.zeros((n, 0), jnp.int32)
        return cls(positive, loss, grad_positive, *none, grad_scores)


class HeadUpdate(NamedTuple):
    """The class rows and biases after a step, and what the rest of the step needs of it.

    Attributes:
      table: class rows of this shard, and their optimiser's state, after the step.
      bias: float32 [N] or None, after the step.
      grad_queries: float32 [n, dim], the gradient of the loss with respect to the scaled queries
        (`Problem.queries`) of this device, summed over the label shards.
      loss: float32 scalar, before the step, summed over all devices.
      ok: bool scalar, as in `HeadStep`; the same on every device.
    """

    table: RowTable
    bias: jax.Array | None
    grad_queries: jax.Array
    loss: jax.Array
    ok: jax.Array


def make_problem(
    spec: HeadSpec,
    head: Head,
    scaled: jax.Array,
    batch: HeadBatch,
    shard: Shard,
    key: jax.Array | None = None,
) -> Problem:
    """Describes the scores of a step: queries, slots, and which of these each term leaves out.

    Args:
      spec: of the head.
      head: the parameters.
      scaled: float32 [n, dim], queries times the multiplier of the scores.
      batch: the labels of the n points and the sample.
      shard: the part of the class rows that this device has.
      key: consumed by the draws of the loss; None where it draws nothing.

    Raises:
      ValueError: no sample or no `known` where the spec needs one, or lists of all positives where
        each term leaves out its own.
    """
    terms, sample, known, seen = batch
    if spec.samples_all:
        sample, ids, log_weights = None, None, None
        num_slots, term_slots = spec.num_labels, terms.ids
    else:
        if sample is None:
            raise ValueError("update_head needs a sample unless all labels are negatives")
        ids, log_weights = jnp.asarray(sample.ids), sample.log_weights
        num_slots, term_slots = ids.shape[0], slots_of(ids, terms.ids)

    masked, excluded = None, None
    if not spec.excludes_known:
        if spec.head_loss.scores_per_point and not spec.one_positive:
            raise ValueError("lists of all positives need exclude='all': no label is both")
        excluded = (
            terms.ids if sample is None else excluded_slots(sample, terms.ids, slots=term_slots)
        )
    else:
        if known is None:
            raise ValueError("update_head needs `known` labels for exclude='all'")
        masked = _slots_left_out(known, seen, sample, num_slots)
    n = scaled.shape[0]
    term_rows = jnp.arange(n, dtype=jnp.int32) if spec.one_positive else entry_rows(terms)
    counts = None
    if sample is not None and sample.num_drawn is not None and spec.head_loss.has_rank_weights:
        counts = _counted(sample.num_drawn, num_slots, excluded, masked, term_rows, n)
    return Problem(
        spec=spec,
        table=head.table,
        bias=head.bias,
        queries=scaled,
        terms=terms,
        term_rows=term_rows,
        term_slots=term_slots,
        ids=ids,
        log_weights=None if log_weights is None else jnp.asarray(log_weights),
        excluded=excluded,
        masked=masked,
        shard=shard,
        counts=counts,
        key=key,
    )


def _counted(
    count: Array,
    num_slots: int,
    excluded: jax.Array | None,
    masked: Masked | None,
    term_rows: jax.Array,
    n: int,
) -> jax.Array:
    """How many of `count` sampled labels each term does not leave out: float32 [T]."""
    if masked is None:
        assert excluded is not None
        return (jnp.asarray(count) - (excluded < num_slots)).astype(jnp.float32)
    # A label may be both known and seen: it is left out once.
    out = jnp.zeros((n, num_slots), bool).at[masked.rows, masked.slots].set(True, mode="drop")
    return (jnp.asarray(count) - jnp.sum(out, axis=1))[term_rows].astype(jnp.float32)


def _slots_left_out(
    known: SparseRows,
    seen: SparseRows | None,
    sample: Sample | None,
    num_slots: int,
) -> Masked:
    """(point, slot) pairs that are no negatives: known and seen labels of the point.

    A point of which none was drawn leaves out the surplus slot `sample.drop`, so that every point
    has the same number of negatives or fewer.
    """
    n = known.starts.shape[0] - 1
    rows, slots = [], []
    hits = jnp.zeros(n, jnp.int32)
    # An entry of `known` with value 0 is padding; the values of `seen` mean nothing.
    for block, real in ((known, known.values != 0), (seen, True)):
        if block is None:
            continue
        places = block.ids if sample is None else slots_of(sample.ids, block.ids)
        found = real & (places >= 0) & (jnp.arange(places.shape[0]) < block.starts[-1])
        rows.append(entry_rows(block))
        slots.append(jnp.where(found, places, num_slots))
        hits += jax.ops.segment_sum(found.astype(jnp.int32), rows[-1], n, indices_are_sorted=True)
    if sample is not None:
        rows.append(jnp.arange(n, dtype=jnp.int32))
        slots.append(jnp.where(hits, num_slots, jnp.asarray(sample.drop)))
    return Masked(jnp.concatenate(rows), jnp.concatenate(slots))


def term_scores(problem: Problem, every: jax.Array | None = None) -> jax.Array:
    """The score of each term's positive, float32 [T]; the same on every shard.

    Args:
      problem: the batch and its sample.
      every: float32 [n, size], the scores of all slots if they are known. Where every label has a
        slot, a CPU looks the positives up in them; others compute each from its row.
    """
    looked_up = problem.compute_dtype == jnp.float32 and of_platform(_LOOKS_UP)
    if every is not None and problem.ids is None and looked_up:
        return every[problem.term_rows, problem.terms.ids]
    place, here = problem.local(problem.terms.ids)
    rows, queries = problem.table.rows, problem.queries
    if problem.spec.one_positive:
        scores = jnp.sum(queries * as_float(rows[place]), axis=-1)
    else:
        scores = entry_products(rows, problem.terms._replace(ids=place), queries)
    if problem.bias is not None:
        scores = scores + problem.bias[place]
    return problem.shard.sum(jnp.where(here, scores, 0))


def positive_block(problem: Problem, values: jax.Array) -> SparseRows:
    """The terms' positives as a block of this shard's rows; entries of other shards get value 0."""
    place, here = problem.local(problem.terms.ids)
    return SparseRows(place, jnp.where(here, values, 0), problem.terms.starts)
