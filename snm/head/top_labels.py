"""The answers of a head: the labels of highest score for each query."""

from __future__ import annotations

import functools
import numbers

import jax
import jax.numpy as jnp
from jax import lax

from snm.errors import InputError
from snm.head.checks import check_queries, described
from snm.head.state import Head
from snm.topk.product import product_top_k

__all__ = ["top_labels"]


def top_labels(head: Head, queries: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    """The k labels of highest score for each query, of all labels, and their scores.

    The score of a label is exp(log_scale) * (query . class row) + bias, in float32. It is searched
    block by block: the matrix of all scores is never there.

    Args:
      head: of one device, with all class rows.
      queries: float32 [n, dim], at least one, from the encoder that the head was trained with.
      k: from 1 to K; static under `jax.jit`.

    Returns:
      Labels int32 [n, k] and scores float32 [n, k], highest first; ties go to the lower label.

    Raises:
      InputError: `k` is not from 1 to K, or an argument has another type or shape.

    Example:
      >>> from snm import HeadSpec, init_head
      >>> head = init_head(HeadSpec(num_labels=9, sampled=4, mined=2), jax.random.key(0), 3)
      >>> labels, scores = top_labels(head, head.class_rows[2:4], 1)
      >>> labels.tolist(), scores.round(3).tolist()
      ([[2], [3]], [[1.0], [1.0]])
    """
    if not isinstance(head, Head):
        raise InputError("head", described(head), "a Head")
    check_queries(head, queries)
    num_labels = head.table.rows.shape[0]
    if not isinstance(k, numbers.Integral) or not 1 <= k <= num_labels:
        raise InputError("k", repr(k)[:80], f"a whole number from 1 to {num_labels}, the labels")
    return _top_labels(head, jnp.asarray(queries), int(k))


@functools.partial(jax.jit, static_argnames="k")  # or bfloat16 rows would be copied
def _top_labels(head: Head, queries: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
    rows = head.table.rows
    if rows.dtype == jnp.uint16:
        rows = lax.bitcast_convert_type(rows, jnp.bfloat16)
    with jax.default_matmul_precision("float32"):
        scaled = queries * jnp.exp(head.log_scale)
        best = product_top_k(scaled, rows, k, bias=head.bias)
    return best.slots, best.scores
