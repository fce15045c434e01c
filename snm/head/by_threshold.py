"""Mining without sorting: the loss of a batch's highest scores, by a threshold a point.

Where each mined negative weighs the same, the loss needs to know which scores are among the k'
highest, not their order. A threshold tells; halving an interval finds it in about fifteen passes
that only compare and count. For k' = 256 of 4096 that takes a seventh of the time of a partial
sort on a CPU, and the gradient comes out as a matrix, with nothing to scatter.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.head.problem import Problem
from snm.losses.surrogates import Surrogate
from snm.topk.bisection import MASKED, Mined, mined_weights
from snm.topk.blocks import block_plan, read_block, score_block

__all__ = [
    "Thresholded",
    "every_score",
    "mines_by_threshold",
    "thresholded_loss",
]

_FEWEST = 32  # mined; of fewer, blocks that keep the best are as fast, and give ties an order
_SCORES = 1 << 23  # 32 MB of scores held at once; above that fresh pages cost more than a sort
_CACHED = (
    1 << 18
)  # scores looked at together, 1 MB: every pass but the first finds them in the cache


class Thresholded(NamedTuple):
    """What the head needs of a batch mined by thresholds.

    Attributes:
      loss: float32 scalar.
      of_positive: float32 [T], the gradient with respect to the positives' scores.
      of_scores: float32 [n, size], the gradient with respect to the scores of all slots, in the
        one block that `scoring.block_plan` makes of them.
    """

    loss: jax.Array
    of_positive: jax.Array
    of_scores: jax.Array


def mines_by_threshold(problem: Problem, mined: int, loss: str) -> bool:
    """Whether a batch's scores fit, and its terms can share what is mined for their point.

    Args:
      problem: the batch.
      mined: k'.
      loss: bowl, powl or softmax.
    """
    shared = problem.excluded is None and loss != "powl"
    one = problem.shard.axis_name is None and problem.shard.data_axis is None
    few = problem.queries.shape[0] * problem.num_slots <= _SCORES
    some = _FEWEST <= mined < problem.num_slots
    return one and few and some and (shared or problem.one_term_a_row)


def thresholded_loss(
    problem: Problem,
    positive_scores: jax.Array,
    *,
    mined: int,
    loss: str,
    phi: Surrogate,
    weight: float,
) -> Thresholded:
    """The loss of all terms on the `mined` highest scores of their points, and its gradient.

    Scores that tie for the last places share them: the loss is what any choice among them gives,
    the gradient the mean over the choices.

    Args:
      problem: the batch; see `mines_by_threshold`.
      positive_scores: float32 [T].
      mined: k'.
      loss: bowl, powl or softmax.
      phi: surrogate of bowl and powl.
      weight: of each mined negative, in bowl and powl.
    """
    scores = every_score(problem)
    found, sums = _by_rows(problem, scores, mined, loss, phi, positive_scores)
    chosen = found.weights(scores)
    of_term, term_rows = problem.terms.values, problem.term_rows

    def of_row(values: jax.Array) -> jax.Array:
        return jax.ops.segment_sum(values, term_rows, scores.shape[0], indices_are_sorted=True)

    if loss == "softmax":
        # A point's rivals are the same for all of its terms, and so are their gradients but for
        # a factor: the terms' weights times the probability that each gives to the rivals.
        def cross_entropy(positive: jax.Array, rivals: jax.Array) -> jax.Array:
            margin = rivals[term_rows] - positive
            some = rivals[term_rows] > MASKED / 2
            return jnp.sum(_weighed(of_term, jnp.where(some, jax.nn.softplus(margin), 0)))

        value, (of_positive, of_rivals) = jax.value_and_grad(cross_entropy, argnums=(0, 1))(
            positive_scores, sums
        )
        shift = jnp.where(sums > MASKED / 2, sums, 0)
        mass = jnp.exp(jnp.minimum(_logits(problem, scores) - shift[:, None], 0))
        of_scores = of_rivals[:, None] * jnp.where(chosen > 0, chosen * mass, 0)
        return Thresholded(value, of_positive, of_scores)

    margins = _margins(loss, positive_scores, scores)
    slopes = jnp.where(chosen > 0, chosen * _slope(phi, margins), 0)
    weights = weight * of_row(of_term)
    value = jnp.sum(weights * sums)
    of_positive = jnp.zeros_like(positive_scores)
    if loss == "bowl":
        value += jnp.sum(_weighed(of_term, phi(positive_scores)))
        of_positive = _weighed(of_term, _slope(phi, positive_scores))
    else:
        of_positive = weights * jnp.sum(slopes, axis=1)  # one term a point
    return Thresholded(value, of_positive, -weights[:, None] * slopes)


def every_score(problem: Problem) -> jax.Array:
    """The scores of all slots for each point: float32 [n, size], MASKED where none may be chosen.

    On one device, and where terms share what their point leaves out, or each point has one term.
    """
    size = block_plan(problem.num_slots, problem.num_slots).size
    rows, place, begin = read_block(problem.table.rows, problem.ids, jnp.int32(0), size, 0)
    scores = score_block(
        problem.queries,
        rows,
        place,
        begin,
        num_rows=problem.table.rows.shape[0],
        masked=problem.masked,
        bias=problem.bias,
        compute_dtype=problem.compute_dtype,
    )
    if problem.excluded is not None:  # one term a point
        every = jnp.arange(scores.shape[0], dtype=jnp.int32)
        scores = scores.at[every, problem.excluded].set(MASKED, mode="drop")
    return scores


def _by_rows(
    problem: Problem,
    scores: jax.Array,
    mined: int,
    loss: str,
    phi: Surrogate,
    positive_scores: jax.Array,
) -> tuple[Mined, jax.Array]:
    """What is mined of each point, and the sum that its loss takes over them, some rows at a time.

    Returns:
      The mined, and float32 [n]: the logarithm of the sum of exponentials for softmax, MASKED
      where a point has no rival; else the sum of the surrogate.
    """
    n, size = scores.shape
    most = max(1, _CACHED // size)
    rows = max(r for r in range(1, n + 1) if n % r == 0 and r <= most) if n > most else n
    one_a_row = positive_scores if loss == "powl" else jnp.zeros(n)

    def some_rows(part: tuple[jax.Array, jax.Array]) -> tuple[Mined, jax.Array]:
        scores, positive = part
        found = mined_weights(scores, mined)
        chosen = found.weights(scores)
        if loss != "softmax":
            values = chosen * phi(_margins(loss, positive, scores))
            return found, jnp.sum(jnp.where(chosen > 0, values, 0), axis=1)
        logits = _logits(problem, scores)
        shift = jnp.max(jnp.where(chosen > 0, logits, MASKED), axis=1)
        some = shift > MASKED / 2
        shift = jnp.where(some, shift, 0)
        terms = jnp.where(chosen > 0, chosen * jnp.exp(logits - shift[:, None]), 0)
        total = jnp.sum(terms, axis=1)
        return found, jnp.where(some, shift + jnp.log(jnp.where(some, total, 1)), MASKED)

    parts = scores.reshape(n // rows, rows, size), one_a_row.reshape(n // rows, rows)
    return jax.tree.map(lambda x: x.reshape(n), lax.map(some_rows, parts))


def _logits(problem: Problem, scores: jax.Array) -> jax.Array:
    if problem.log_weights is None:
        return scores
    padding = scores.shape[1] - problem.log_weights.shape[0]
    return scores + jnp.pad(problem.log_weights, (0, padding))[None, :]


def _margins(loss: str, positive: jax.Array, scores: jax.Array) -> jax.Array:
    return -scores if loss == "bowl" else positive[:, None] - scores


def _slope(phi: Surrogate, x: jax.Array) -> jax.Array:
    """The derivative of phi at each x."""
    return jax.jvp(phi, (x,), (jnp.ones_like(x),))[1]


def _weighed(weights: jax.Array, values: jax.Array) -> jax.Array:
    """Their product, 0 for the terms that are padding whatever their value."""
    return jnp.where(weights != 0, weights * values, 0)
