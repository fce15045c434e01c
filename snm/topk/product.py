"""The k highest scores of a product, for output layers of any model, with a gradient."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from snm.losses.reductions import MASKED, unmasked
from snm.machine.platform import platform
from snm.topk.blocks import Best, LabelRows, Masked
from snm.topk.search import best_scores

__all__ = ["product_top_k"]


def product_top_k(
    queries: jax.Array,
    rows: jax.Array,
    count: int,
    *,
    bias: jax.Array | None = None,
    log_weights: jax.Array | None = None,
    masked: Masked | None = None,
    compute_dtype: Any = jnp.float32,
    kernel: str = "auto",
) -> Best:
    """`lax.top_k(queries @ rows.T + bias + log_weights, count)`, without the matrix of scores.

    On a TPU one kernel computes the product, excludes the masked slots and keeps the running top k
    on the chip; see `snm.topk.kernel`. Elsewhere, and where the kernel would move more memory, the
    product is searched block by block. In both cases ties go to the lowest slot.

    The scores are differentiable in reverse mode (`jax.grad`, `jax.vjp`; not `jax.jvp` nor
    `jax.hessian`), the slots are not. The backward pass reads the chosen rows alone,
    n x count x dim numbers; the gradient of `rows` is a dense [S, dim] array. A score that is not a
    number counts as masked in the kernel.

    Args:
      queries: float32 [n, dim].
      rows: float32 or bfloat16 [S, dim], such as the sampled rows of an output embedding.
      count: how many to keep, 1 to S; the kernel takes at most 256.
      bias: float32 [S], added to the scores of each row; -inf leaves a row out.
      log_weights: float32 [S], added likewise: -log Q of a sampled softmax.
      masked: pairs of a query and a slot that must not be chosen, such as a query's own answer.
      compute_dtype: type of the factors of the product, float32 or bfloat16. Sums are float32;
        float32 factors are as precise as `jax.default_matmul_precision` asks for, or more.
      kernel: auto uses the kernel on a TPU, where it moves fewer bytes; off, nowhere.

    Returns:
      Scores float32 [n, count] in descending order, `MASKED` (-1e30) where fewer are left; and
      their slots, int32 [n, count]. The slot of a `MASKED` score means nothing.

    Raises:
      ValueError: shapes that do not fit each other, a count out of range, queries or rows of
        another type, or an unknown choice of kernel.

    Example:
      >>> queries = jnp.array([[1.0, 0.0], [0.0, 1.0]])
      >>> rows = jnp.array([[3.0, 1.0], [2.0, 2.0], [3.0, 0.0]])
      >>> own = Masked(jnp.arange(2), jnp.array([0, 1]))
      >>> best = product_top_k(queries, rows, 2, masked=own)
      >>> best.scores.tolist(), best.slots.tolist()
      ([[3.0, 2.0], [1.0, 0.0]], [[2, 1], [0, 2]])
    """
    queries, rows, bias, log_weights = jax.tree.map(jnp.asarray, (queries, rows, bias, log_weights))
    _check(queries, rows, count, bias, log_weights)
    addends = [x for x in (bias, log_weights) if x is not None]
    offsets = functools.reduce(jnp.add, addends) if addends else None
    return _top(count, jnp.dtype(compute_dtype), kernel, queries, rows, offsets, masked)


def _check(
    queries: jax.Array,
    rows: jax.Array,
    count: int,
    bias: jax.Array | None,
    log_weights: jax.Array | None,
) -> None:
    if queries.ndim != 2 or rows.ndim != 2 or queries.shape[1] != rows.shape[1]:
        raise ValueError(f"queries [n, dim] and rows [S, dim], not {queries.shape}, {rows.shape}")
    if queries.dtype != jnp.float32:
        raise ValueError(f"queries are float32, not {queries.dtype}")
    if rows.dtype not in (jnp.float32, jnp.bfloat16):
        raise ValueError(f"rows are float32 or bfloat16, not {rows.dtype}")
    if not 1 <= count <= rows.shape[0]:
        raise ValueError(f"count is 1 to {rows.shape[0]}, the number of rows, not {count}")
    for name, offset in (("bias", bias), ("log_weights", log_weights)):
        if offset is not None and offset.shape != rows.shape[:1]:
            raise ValueError(f"{name} is [{rows.shape[0]}], not {list(offset.shape)}")


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _top(
    count: int,
    compute_dtype: Any,
    kernel: str,
    queries: jax.Array,
    rows: jax.Array,
    offsets: jax.Array | None,
    masked: Masked | None,
) -> Best:
    table = rows
    # A CPU would convert all rows before it reads a block; a TPU may copy rows that are bit-cast.
    if rows.dtype == jnp.bfloat16 and platform() == "cpu":
        table = lax.bitcast_convert_type(rows, jnp.uint16)
    best = best_scores(
        queries,
        LabelRows(table, bias=offsets),
        count,
        masked=masked,
        compute_dtype=compute_dtype,
        kernel=kernel,
    )
    return Best(jnp.maximum(best.scores, MASKED), best.slots)


def _forward(count: int, compute_dtype: Any, kernel: str, *args: Any) -> tuple[Best, Any]:
    best = _top(count, compute_dtype, kernel, *args)
    return best, (*args, best)


def _backward(
    count: int, compute_dtype: Any, kernel: str, residuals: tuple, grad_best: Best
) -> tuple:
    queries, rows, offsets, _, best = residuals
    grad_scores = jnp.where(unmasked(best.scores), grad_best.scores, 0)
    chosen = rows[best.slots].astype(jnp.float32)
    grad_queries = jnp.einsum("nk,nkd->nd", grad_scores, chosen)
    grad_chosen = grad_scores[:, :, None] * queries[:, None, :]
    grad_rows = (
        jnp.zeros(rows.shape, jnp.float32).at[best.slots].add(grad_chosen).astype(rows.dtype)
    )
    grad_offsets = None
    if offsets is not None:
        grad_offsets = jnp.zeros(offsets.shape, jnp.float32).at[best.slots].add(grad_scores)
    return grad_queries, grad_rows, grad_offsets, None


_top.defvjp(_forward, _backward)
