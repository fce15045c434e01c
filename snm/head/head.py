"""The classification head: class rows, mining, loss and row updates, under any encoder.

Query embeddings go in; the loss, its gradient with respect to the queries, and the head with its
rows updated come out:

    queries, pull_back = jax.vjp(encode, params)
    head, step = update_head(spec, head, queries, terms, sample, learning_rate=50.0)
    grads, = pull_back(step.query_gradient)

One function walks through Algorithm 1 of Reddi et al. (2019) in the order in which it happens:
score the positives, mine the sampled labels, take the loss, send its gradient back.

Everything is written for one shard of the label rows. `axis_name` names the mesh axis that the
labels are cut over; with None (one device) the collectives fall away.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from snm.distributed.collectives import Shard
from snm.head import by_threshold as thresholds
from snm.head.by_blocks import DenseLoss, by_products
from snm.head.by_pairs import PAIRS_LIMIT, by_pairs
from snm.head.mining import mine
from snm.head.problem import Problem, Result, ScoreGradients, term_scores
from snm.head.spec import HeadSpec
from snm.head.state import Head, HeadStep
from snm.losses import mined_lists as lists
from snm.losses import ordered as losses
from snm.losses import rank_weights as weights
from snm.losses import softmax
from snm.sampling.sample import Sample, slots_of
from snm.tables.table import SparseRows, entry_rows
from snm.topk.blocks import Masked
from snm.topk.search import MASKED

__all__ = ["update_head"]


def update_head(
    spec: HeadSpec,
    head: Head,
    queries: jax.Array,
    terms: SparseRows,
    sample: Sample | None,
    *,
    learning_rate: jax.Array | float,
    scale_learning_rate: jax.Array | float = 0.0,
    known: SparseRows | None = None,
    seen: SparseRows | None = None,
    key: jax.Array | None = None,
    noise: jax.Array | None = None,
    axis_name: str | None = None,
    data_axis: str | None = None,
) -> tuple[Head, HeadStep]:
    """One step of Stochastic Negative Mining (Reddi et al., 2019, Algorithm 1).

    Donate `head` to the jitted step that calls this, so that its rows change in place.

    Args:
      spec: the loss, the sample's size, and the rest; static.
      head: parameters; with `axis_name`, this device's rows of them.
      queries: float32 [n, dim], unit length for scores in [-1, 1].
      terms: the positives as an [n, K] block: label ids, and the weight of each term in the loss
        (0 for padding). With `spec.positives == "one"`, entry i belongs to row i.
      sample: the labels drawn for this batch, at least B + 1 slots; None where `samples_all`.
      learning_rate: of the class rows (and of the bias).
      scale_learning_rate: of the logarithm of the score multiplier.
      known: all known labels of the n points as an [n, K] block, for `exclude == "all"`.
      seen: labels that are no answers to the n points, and with `exclude == "all"` no negatives
        either, as an [n, K] block whose values mean nothing.
      key: consumed by the draws of `vartheta == "subsample"`.
      noise: uint32 scalar that the rounding of bfloat16 rows follows from, another each step.
      axis_name: mesh axis of the label shards, or None. Call within `jax.shard_map(...,
        check_vma=False)`: the loops over rows start from constants, which its check refuses.
      data_axis: mesh axis that the points are cut over, or None. `queries`, `terms` and `known`
        are then this device's points; the weights of the terms are those of the whole batch.

    Returns:
      The updated head, and the loss with its gradient.
    """
    shard = Shard.of(head.table.rows, spec.num_labels, axis_name, data_axis)
    scale = jnp.exp(head.log_scale)
    scaled = queries * scale
    problem = _problem(spec, head, scaled, terms, sample, known, seen, shard, noise)

    # Score: the positives by gathered rows, the sample by blocks that keep the best.
    positive_scores = term_scores(problem)
    if spec.list_loss is not None and spec.mined == spec.sampled and shard.alone:
        result = _step_on_whole_lists(spec.list_loss, problem, positive_scores, learning_rate)
        return _stepped(spec, head, scaled, result, scale, scale_learning_rate, shard)
    if _by_threshold(spec, problem):
        result = _step_by_threshold(spec, problem, positive_scores, learning_rate)
        return _stepped(spec, head, scaled, result, scale, scale_learning_rate, shard)
    best = mine(spec, problem)

    # Loss: of the terms as a function of the positive and the mined scores, and of nothing else.
    def mined_loss(positive: jax.Array, mined: jax.Array) -> jax.Array:
        if spec.list_loss is not None:
            where = _where_mined(spec, problem, mined, best.slots)
            return spec.list_loss(_lists_of(problem, positive, mined, where))
        values = _term_losses(spec, problem, positive, mined, best.slots, key)
        return jnp.sum(jnp.where(terms.values != 0, terms.values * values, 0))

    loss, (of_positive, of_mined) = jax.value_and_grad(mined_loss, argnums=(0, 1))(
        positive_scores, best.scores
    )
    of_mined = jnp.where(best.scores > MASKED / 2, of_mined, 0)

    # Update: pair by pair where few were mined, by matrix products where many.
    gradients = ScoreGradients(of_positive, of_mined, best.slots)
    dense = _dense_losses(spec)
    if dense is not None or spec.mined * PAIRS_LIMIT > problem.num_slots:
        result = by_products(problem, positive_scores, gradients, loss, dense, learning_rate)
    else:
        result = by_pairs(problem, gradients, loss, learning_rate)
    return _stepped(spec, head, scaled, result, scale, scale_learning_rate, shard)


def _stepped(
    spec: HeadSpec,
    head: Head,
    scaled: jax.Array,
    result: Result,
    scale: jax.Array,
    scale_learning_rate: jax.Array | float,
    shard: Shard,
) -> tuple[Head, HeadStep]:
    """The head after the step, its multiplier too, and what the step tells."""
    log_scale = head.log_scale
    if spec.learn_scale:
        gradient = shard.data_sum(jnp.sum(result.of_queries * scaled))
        log_scale = log_scale - jnp.where(result.ok, scale_learning_rate * gradient, 0)
    step = HeadStep(result.loss, result.of_queries * scale, result.ok)
    return Head(result.table, result.bias, log_scale), step


def _by_threshold(spec: HeadSpec, problem: Problem) -> bool:
    """Whether many are mined, all with one weight, of scores that fit into the cache."""
    many = spec.mined * PAIRS_LIMIT > problem.num_slots
    if not many or spec.mines_all or spec.vartheta != "top" or spec.list_loss is not None:
        return False
    return thresholds.mines_by_threshold(problem, spec.mined, spec.loss)


def _step_by_threshold(
    spec: HeadSpec,
    problem: Problem,
    positive_scores: jax.Array,
    learning_rate: jax.Array | float,
) -> Result:
    """The same step without an order of the mined: their gradient is a matrix from the start."""
    weight = 1.0 if spec.loss == "softmax" else float(spec.rank_weights()[0][0])
    found = thresholds.thresholded_loss(
        problem,
        positive_scores,
        mined=spec.mined,
        loss=spec.loss,
        phi=spec.surrogate,
        weight=weight,
    )
    n = problem.queries.shape[0]
    none = ScoreGradients(found.of_positive, jnp.zeros((n, 0)), jnp.zeros((n, 0), jnp.int32))
    return by_products(
        problem, positive_scores, none, found.loss, None, learning_rate, of_scores=found.of_scores
    )


def _step_on_whole_lists(
    loss: lists.ListLoss,
    problem: Problem,
    positive_scores: jax.Array,
    learning_rate: jax.Array | float,
) -> Result:
    """The step with the whole sample in each list.

    Nothing is sorted, and the gradient of the scores is a matrix from the start.
    """
    scores = thresholds.every_score(problem)

    def whole_loss(positive: jax.Array, negative: jax.Array) -> jax.Array:
        return loss(_lists_of(problem, positive, negative, negative > MASKED / 2))

    value, (of_positive, of_scores) = jax.value_and_grad(whole_loss, argnums=(0, 1))(
        positive_scores, scores
    )
    n = problem.queries.shape[0]
    none = ScoreGradients(of_positive, jnp.zeros((n, 0)), jnp.zeros((n, 0), jnp.int32))
    return by_products(
        problem, positive_scores, none, value, None, learning_rate, of_scores=of_scores
    )


def _lists_of(
    problem: Problem, positive: jax.Array, negative: jax.Array, where: jax.Array
) -> lists.Lists:
    return lists.Lists(positive, problem.term_rows, problem.terms.values, negative, where)


def _problem(
    spec: HeadSpec,
    head: Head,
    scaled: jax.Array,
    terms: SparseRows,
    sample: Sample | None,
    known: SparseRows | None,
    seen: SparseRows | None,
    shard: Shard,
    noise: jax.Array | None,
) -> Problem:
    """Names the slots that each term, or each point, leaves out."""
    if spec.samples_all:
        ids, drop, log_weights = None, jnp.int32(spec.num_labels), None
        term_slots = terms.ids
    else:
        if sample is None:
            raise ValueError("update_head needs a sample unless all labels are negatives")
        ids, drop = jnp.asarray(sample.ids), jnp.asarray(sample.drop)
        log_weights = sample.log_weights
        term_slots = slots_of(ids, terms.ids)
    num_slots = spec.num_labels if ids is None else ids.shape[0]

    masked, excluded = None, None
    if spec.exclude == "positive":
        if spec.list_loss is not None and spec.positives == "all":
            raise ValueError("lists of all positives need exclude='all': no label is both")
        excluded = jnp.where(term_slots >= 0, term_slots, drop)
    else:
        if known is None:
            raise ValueError("update_head needs `known` labels for exclude='all'")
        masked = _slots_left_out(known, seen, ids, drop, num_slots)
    n = scaled.shape[0]
    one = spec.positives == "one"
    return Problem(
        table=head.table,
        bias=head.bias,
        queries=scaled,
        terms=terms,
        term_rows=jnp.arange(n, dtype=jnp.int32) if one else entry_rows(terms),
        one_term_a_row=one,
        term_slots=term_slots,
        ids=ids,
        num_slots=num_slots,
        log_weights=None if log_weights is None else jnp.asarray(log_weights),
        excluded=excluded,
        masked=masked,
        shard=shard,
        row_optimizer=spec.row_optimizer,
        compute_dtype=jnp.dtype(spec.compute_dtype),
        noise=noise,
    )


def _slots_left_out(
    known: SparseRows,
    seen: SparseRows | None,
    ids: jax.Array | None,
    drop: jax.Array,
    num_slots: int,
) -> Masked:
    """Pairs that mask what is no negative of a point, or the slot `drop` where none was drawn."""
    n = known.starts.shape[0] - 1
    rows, slots = [], []
    hits = jnp.zeros(n, jnp.int32)
    # Entries of `known` may have no weight; those of `seen` count whatever theirs is.
    for block, real in ((known, known.values != 0), (seen, True)):
        if block is None:
            continue
        places = block.ids if ids is None else slots_of(ids, block.ids)
        found = real & (places >= 0) & (jnp.arange(places.shape[0]) < block.starts[-1])
        rows.append(entry_rows(block))
        slots.append(jnp.where(found, places, num_slots))
        hits += jax.ops.segment_sum(found.astype(jnp.int32), rows[-1], n, indices_are_sorted=True)
    if ids is not None:
        rows.append(jnp.arange(n, dtype=jnp.int32))
        slots.append(jnp.where(hits, num_slots, drop))
    return Masked(jnp.concatenate(rows), jnp.concatenate(slots))


def _where_mined(spec: HeadSpec, problem: Problem, mined: jax.Array, slots: jax.Array) -> jax.Array:
    """Which of the mined are negatives of each term, or each list: bool, as `mined`."""
    where = mined > MASKED / 2
    if problem.excluded is not None:
        where &= slots != problem.excluded[:, None]
    if spec.loss in ("powl", "bowl"):  # whose weights have as many ranks as they need
        return where
    # Of k' + 1 mined, a term that left none of them out compares with the k' hardest.
    return where & (jnp.cumsum(where, axis=1) <= spec.mined)


def _term_losses(
    spec: HeadSpec,
    problem: Problem,
    positive: jax.Array,
    mined: jax.Array,
    slots: jax.Array,
    key: jax.Array | None,
) -> jax.Array:
    """The loss of each term on its mined negatives: float32 [T]. A dense tail comes later."""
    if spec.mines_all:
        bowl = spec.loss == "bowl"
        return spec.surrogate(positive) if bowl else jnp.zeros_like(positive)
    if not problem.one_term_a_row:
        mined, slots = mined[problem.term_rows], slots[problem.term_rows]
    where = _where_mined(spec, problem, mined, slots)
    if spec.loss == "softmax":
        log_weights = None if problem.log_weights is None else problem.log_weights[slots]
        return softmax.sampled_softmax(
            positive, mined, where=where, log_weights=log_weights, reduce_fn=None
        )
    vartheta, _ = spec.rank_weights()
    # Stays on the host: equal weights need no ranks.
    rank_weights: np.ndarray | jax.Array = vartheta[: mined.shape[1]]
    if spec.vartheta == "subsample":
        if key is None:
            raise ValueError("update_head needs a key for vartheta='subsample'")
        count = positive.shape[0]
        shape = (count * problem.shard.data_parts,)
        ranks, weight = weights.subsample(key, vartheta, spec.subsample_draws, shape=shape)
        ranks = problem.shard.own_draws(ranks, problem.terms.starts)
        counts = jax.nn.one_hot(ranks, rank_weights.shape[0], dtype=jnp.float32).sum(axis=-2)
        rank_weights = counts * weight[0]
    loss = losses.sampled_bowl if spec.loss == "bowl" else losses.sampled_powl
    return loss(
        positive,
        mined,
        vartheta=rank_weights,
        phi=spec.surrogate,
        where=where,
        reduce_fn=None,
        presorted=True,
    )


def _dense_losses(spec: HeadSpec) -> DenseLoss | None:
    """The part of the loss that all sampled negatives share, None where only mined ones count."""
    if spec.loss == "softmax":
        return DenseLoss("softmax", spec.surrogate, 1.0) if spec.mines_all else None
    _, tail = spec.rank_weights()
    return DenseLoss(spec.loss, spec.surrogate, tail) if tail else None
