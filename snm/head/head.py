"""The classification head: class rows, mining, loss and row updates, on top of any encoder.

It takes query embeddings, and returns the head with updated rows, the loss, and the gradient of the
loss with respect to the queries:

    queries, pull_back = jax.vjp(encode, params)
    batch = HeadBatch(terms, sample)
    head, step = update_head(spec, head, queries, batch, learning_rate=50.0)
    grads, = pull_back(step.query_gradient)

`update_head` follows Algorithm 1 of Reddi et al. (2019): score the positives, mine the sampled
labels, compute the loss, and update the rows with its gradient.

All functions work on one shard of the class table. `axes` names the mesh axes over which the table
and the points are sharded; on one device there are no collectives.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from snm.distributed.collectives import Shard
from snm.distributed.mesh import ONE_DEVICE, Axes
from snm.head.by_blocks import update_by_blocks
from snm.head.by_pairs import update_by_pairs
from snm.head.checks import check_rate, check_step
from snm.head.gradients import score_gradients
from snm.head.spec import HeadSpec, in_precision
from snm.head.state import Head, HeadBatch, HeadStep
from snm.head.step_inputs import collect_inputs
from snm.tables.optimizers import RowStep

__all__ = ["update_head"]


@in_precision
def update_head(
    spec: HeadSpec,
    head: Head,
    queries: jax.Array,
    batch: HeadBatch,
    *,
    learning_rate: jax.Array | float,
    scale_learning_rate: jax.Array | float = 0.0,
    key: jax.Array | None = None,
    noise: jax.Array | None = None,
    taken: jax.Array | None = None,
    axes: Axes = ONE_DEVICE,
) -> tuple[Head, HeadStep]:
    """One step of Stochastic Negative Mining (Reddi et al., 2019, Algorithm 1).

    Donate `head` to the jitted step that calls this, so that its rows change in place.

    Args:
      spec: the loss, the sample's size, and the rest; static.
      head: parameters; with `axes.label`, this device's rows of them.
      queries: float32 [n, dim], at least one, of unit length for scores in [-1, 1].
      batch: the positives of the n points, the sample of labels, and the labels that are neither
        positives nor negatives.
      learning_rate: of the class rows (and of the bias).
      scale_learning_rate: of `log_scale`, the logarithm of the score scale.
      key: consumed by the draws of `vartheta="subsample"`; others need none.
      noise: uint32 scalar that seeds the stochastic rounding of bfloat16 rows, which need it;
        pass a new one at every step.
      taken: bool scalar; if False, nothing is written (a padding step). None means True.
      axes: the mesh axes that shard the labels and the points; `features` is not used. Call
        within `jax.shard_map(..., check_vma=False)`: its check rejects the loops over rows, which
        start from constants. With `axes.data`, `queries` and the blocks of `batch` are this
        device's points; the weights of the terms are those of the whole batch.

    Returns:
      The updated head, and the loss with its gradient.

    What is known when the step is traced is checked then, and costs the compiled step nothing:
    shapes, dtypes, the number of slots, what is None. The numbers of a batch are checked if they
    are known: in NumPy arrays, and in JAX arrays outside of `jax.jit`. Traced ids are not: of a
    wrong one, an ascending order that is broken or a label past the last, the step makes a wrong
    loss, without an error. `Sample`s that are drawn on the device are yours to check.

    Raises:
      InputError: an argument does not fit the spec or the others, such as a sample of fewer than
        B + 1 slots, a head of another spec, labels out of range, no `noise` for bfloat16 rows, or
        a rate that is not finite; a listwise loss of all positives is combined with
        `exclude="positive"`; the value of the loss is not a float scalar.
      ValueError: the loss draws and there is no key.
    """
    check_step(spec, head, queries, batch, noise, axes)
    check_rate("learning_rate", learning_rate)
    check_rate("scale_learning_rate", scale_learning_rate)
    shard = Shard.of(head.table.rows, spec.num_labels, axes.label, axes.data)
    scale = jnp.exp(head.log_scale)
    scaled = queries * scale
    inputs = collect_inputs(spec, head, scaled, batch, shard, key)
    row_step = RowStep(
        spec.row_rule, learning_rate, unit_norm=True, noise=noise, first_row=shard.first_row
    )

    # Score the positives, mine the sample, and differentiate the loss.
    gradients = score_gradients(inputs)
    # If all queries are finite, update rows: pair by pair if few are mined, else by products.
    may_write = jnp.all(jnp.isfinite(scaled))
    if taken is not None:
        may_write &= taken
    update_rows = update_by_pairs if inputs.plan.by_pairs else update_by_blocks
    update = update_rows(inputs, gradients, row_step, may_write)

    log_scale = head.log_scale
    if spec.learn_scale:
        gradient = shard.data_sum(jnp.sum(update.grad_queries * scaled))
        log_scale = log_scale - jnp.where(update.ok, scale_learning_rate * gradient, 0)
    step = HeadStep(update.loss, update.grad_queries * scale, update.ok)
    return Head(update.table, update.bias, log_scale), step
