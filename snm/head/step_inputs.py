"""The inputs of one step of the head (batch, sample, exclusions), its gradients and its update."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from snm.distributed.collectives import Shard
from snm.head.plan import StepPlan, plan_step
from snm.head.spec import HeadSpec
from snm.head.state import Head, HeadBatch
from snm.losses.sampled import TermScores
from snm.machine.platform import for_platform
from snm.sampling.sample import Array, Sample, excluded_slots, find_slots
from snm.tables.products import entry_products
from snm.tables.rounding import as_float
from snm.tables.table import RowTable, SparseRows, entry_rows
from snm.topk.blocks import LabelRows, Masked

__all__ = [
    "HeadUpdate",
    "ScoreGradients",
    "StepInputs",
    "collect_inputs",
    "loss_input",
    "positive_block",
    "term_scores",
]

_LOOKS_UP_POSITIVES = {"cpu": True, "gpu": False, "tpu": False}
"""By platform: whether scores of positives are looked up in the scores of all labels, if these were
computed. On a CPU that is faster (timed). On accelerators their products may have fewer bits."""


@dataclasses.dataclass(frozen=True)
class StepInputs:
    """A batch, its sample, and the slots that each term or point excludes.

    Attributes:
      spec: settings of the head.
      table: class rows of this shard.
      bias: float32 [N] or None.
      queries: float32 [n, dim], times the score scale.
      terms: positives as an [n, K] block; values are the weights of the terms in the loss.
      term_rows: int32 [T], the row of each term.
      term_slots: int32 [T], the slot of each term's positive, or -1.
      ids: int32 [S], the label of each slot, ascending; None if slot j is label j.
      log_weights: float32 [S], added to the scores of the negatives; None if the loss uses none.
      excluded: int32 [T], the slot that each term excludes; None if all known labels are excluded.
      masked: (row, slot) pairs that all terms of the row exclude; None if `excluded` is used.
      shard: which class rows this device holds.
      counts: float32 [T], the number of negatives of each term; None if that is B.
      key: for a loss that makes random draws; otherwise None.
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
    counts: jax.Array | None
    key: jax.Array | None

    @property
    def plan(self) -> StepPlan:
        """How the step is computed."""
        n = self.queries.shape[0]
        return plan_step(self.spec, n, self.num_slots, single_device=self.shard.is_single_device)

    @property
    def num_slots(self) -> int:
        """S, the number of sampled labels, or K."""
        return self.spec.num_labels if self.ids is None else self.ids.shape[0]

    @property
    def labels(self) -> LabelRows:
        """The labels of the slots, in the form that `snm.topk` scores."""
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
        """Row ids of `labels` in this shard (0 for labels of other shards), and which are here."""
        return self.shard.local(labels, self.table.rows.shape[0])


class ScoreGradients(NamedTuple):
    """The loss, and its gradient with respect to the scores that it was computed from.

    Attributes:
      positive: float32 [T], the scores of the positives.
      loss: float32 scalar, of this device's terms; a dense form adds its part later.
      grad_positive: float32 [T], of the positives.
      grad_mined: float32 [n, m], of the mined labels; 0 for masked ones.
      slots: int32 [n, m], the slot of each mined label.
      grad_scores: float32 [n, size], of all slots, if the gradient is computed as a matrix; then
        m is 0. Otherwise None.
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
        """With the gradient of all slots as a matrix, and no mined labels."""
        n = grad_scores.shape[0]
        grad_mined, slots = jnp.zeros((n, 0)), jnp.zeros((n, 0), jnp.int32)
        return cls(positive, loss, grad_positive, grad_mined, slots, grad_scores)


class HeadUpdate(NamedTuple):
    """The class rows and biases after a step, the loss, and the gradient of the queries.

    Attributes:
      table: class rows of this shard, and their optimizer's state, after the step.
      bias: float32 [N] or None, after the step.
      grad_queries: float32 [n, dim], the gradient of the loss with respect to the scaled queries
        (`StepInputs.queries`) of this device, summed over the label shards.
      loss: float32 scalar, before the step, summed over all devices.
      ok: bool scalar, as in `HeadStep`; the same on every device.
    """

    table: RowTable
    bias: jax.Array | None
    grad_queries: jax.Array
    loss: jax.Array
    ok: jax.Array


def collect_inputs(
    spec: HeadSpec,
    head: Head,
    scaled: jax.Array,
    batch: HeadBatch,
    shard: Shard,
    key: jax.Array | None = None,
) -> StepInputs:
    """Collects the inputs of a step, and finds the slots that each term excludes.

    Args:
      spec: settings of the head.
      head: the parameters.
      scaled: float32 [n, dim], queries times the score scale.
      batch: the labels of the n points and the sample.
      shard: the part of the class rows that this device holds.
      key: consumed by the random draws of the loss; None if it makes none.

    `snm.head.checks` has checked them.
    """
    terms, sample, known, seen = batch
    if spec.samples_all:
        sample, ids = None, None
        num_slots, term_slots = spec.num_labels, terms.ids
    else:
        assert sample is not None
        ids = jnp.asarray(sample.ids)
        num_slots, term_slots = ids.shape[0], find_slots(ids, terms.ids)

    masked, excluded = None, None
    if not spec.excludes_known:
        excluded = (
            terms.ids if sample is None else excluded_slots(sample, terms.ids, slots=term_slots)
        )
    else:
        assert known is not None
        masked = _masked_slots(known, seen, sample, num_slots)
    n = scaled.shape[0]
    term_rows = jnp.arange(n, dtype=jnp.int32) if spec.one_positive else entry_rows(terms)
    log_weights, counts = None, None
    if spec.head_loss.uses_log_weights and sample is not None and sample.log_weights is not None:
        log_weights = jnp.asarray(sample.log_weights)
    if spec.head_loss.has_rank_weights and sample is not None and sample.num_drawn is not None:
        counts = _count_negatives(sample.num_drawn, num_slots, excluded, masked, term_rows, n)
    return StepInputs(
        spec=spec,
        table=head.table,
        bias=head.bias,
        queries=scaled,
        terms=terms,
        term_rows=term_rows,
        term_slots=term_slots,
        ids=ids,
        log_weights=log_weights,
        excluded=excluded,
        masked=masked,
        shard=shard,
        counts=counts,
        key=key,
    )


def _count_negatives(
    count: Array,
    num_slots: int,
    excluded: jax.Array | None,
    masked: Masked | None,
    term_rows: jax.Array,
    n: int,
) -> jax.Array:
    """How many of `count` sampled labels are negatives of each term: float32 [T]."""
    if masked is None:
        assert excluded is not None
        return (jnp.asarray(count) - (excluded < num_slots)).astype(jnp.float32)
    # A label may be both known and seen: it counts once.
    out = jnp.zeros((n, num_slots), bool).at[masked.rows, masked.slots].set(True, mode="drop")
    return (jnp.asarray(count) - jnp.sum(out, axis=1))[term_rows].astype(jnp.float32)


def _masked_slots(
    known: SparseRows,
    seen: SparseRows | None,
    sample: Sample | None,
    num_slots: int,
) -> Masked:
    """(point, slot) pairs that are not negatives: the known and seen labels of each point.

    If none of a point's labels was drawn, the surplus slot `sample.drop` is masked instead, so that
    no point has more than B negatives.
    """
    n = known.starts.shape[0] - 1
    rows, slots = [], []
    hits = jnp.zeros(n, jnp.int32)
    # An entry of `known` with value 0 is padding; the values of `seen` are not used.
    for block, real in ((known, known.values != 0), (seen, True)):
        if block is None:
            continue
        own_slots = block.ids if sample is None else find_slots(sample.ids, block.ids)
        drawn = real & (own_slots >= 0) & (jnp.arange(own_slots.shape[0]) < block.starts[-1])
        rows.append(entry_rows(block))
        slots.append(jnp.where(drawn, own_slots, num_slots))
        hits += jax.ops.segment_sum(drawn.astype(jnp.int32), rows[-1], n, indices_are_sorted=True)
    if sample is not None:
        rows.append(jnp.arange(n, dtype=jnp.int32))
        slots.append(jnp.where(hits, num_slots, jnp.asarray(sample.drop)))
    return Masked(jnp.concatenate(rows), jnp.concatenate(slots))


def term_scores(inputs: StepInputs, scores: jax.Array | None = None) -> jax.Array:
    """The score of each term's positive, float32 [T]; the same on every shard.

    Args:
      inputs: the batch and its sample.
      scores: float32 [n, size], the scores of all slots, if they were computed. If every label has
        a slot, a CPU looks up the positives in them; otherwise they are computed from the rows.
    """
    look_up = inputs.compute_dtype == jnp.float32 and for_platform(_LOOKS_UP_POSITIVES)
    if scores is not None and inputs.ids is None and look_up:
        return scores[inputs.term_rows, inputs.terms.ids]
    row_ids, is_local = inputs.local(inputs.terms.ids)
    rows, queries = inputs.table.rows, inputs.queries
    if inputs.spec.one_positive:
        scores = jnp.sum(queries * as_float(rows[row_ids]), axis=-1)
    else:
        scores = entry_products(rows, inputs.terms._replace(ids=row_ids), queries)
    if inputs.bias is not None:
        scores = scores + inputs.bias[row_ids]
    return inputs.shard.sum(jnp.where(is_local, scores, 0))


def loss_input(
    inputs: StepInputs,
    positive: jax.Array,
    negative: jax.Array,
    where: jax.Array,
    log_weights: jax.Array | None = None,
) -> TermScores:
    """What the loss is computed from: scores of positives and negatives, as in `TermScores`."""
    weights = inputs.terms.values
    return TermScores(
        positive, inputs.term_rows, weights, negative, where, log_weights, inputs.counts
    )


def positive_block(inputs: StepInputs, values: jax.Array) -> SparseRows:
    """The positives as a sparse block of this shard's rows, 0 for labels of other shards."""
    row_ids, is_local = inputs.local(inputs.terms.ids)
    return SparseRows(row_ids, jnp.where(is_local, values, 0), inputs.terms.starts)
