"""The parameters of the head and their initialization, and the input and output of a step."""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from snm.errors import InputError
from snm.head.spec import HeadSpec
from snm.sampling.sample import Sample
from snm.tables.rounding import as_float
from snm.tables.table import RowTable, SparseRows, random_rows

__all__ = ["Head", "HeadBatch", "HeadStep", "init_head"]


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["table", "bias", "log_scale"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class Head:
    """The head's parameters.

    Attributes:
      table: the class rows [K, dim], each of unit length, and their optimizer's state. Those of
        bfloat16 are stored as bits, uint16: multiply with `class_rows`.
      bias: float32 [K] or None.
      log_scale: float32 scalar, natural logarithm of the score scale.
    """

    table: RowTable
    bias: jax.Array | None
    log_scale: jax.Array

    @property
    def class_rows(self) -> jax.Array:
        """The class rows as float32 [K, dim]; a copy if `table.rows` has the bits of bfloat16."""
        return as_float(self.table.rows)


class HeadBatch(NamedTuple):
    """The labels of n queries in a training step: positives, negatives, and excluded labels.

    Attributes:
      terms: the positives as an [n, K] block of T entries: int32 label ids, and the float32 weight
        of each term in the loss (0 for padding). With `spec.positives == "one"`, entry i belongs to
        row i.
      sample: the labels drawn for this batch, at least B + 1 slots; B are enough with
        `Sample.log_weights`, as draws with replacement need no surplus label, and fewer where the
        batch decides how many there are and `Sample.num_drawn` says so. None if
        `spec.samples_all`.
      known: all known labels of the n points as an [n, K] block, whose entries of value 0 are
        padding; needed only if `spec.exclude == "all"`.
      seen: labels that are never predicted for the n points, and are excluded from their negatives
        if `spec.exclude == "all"`, as an [n, K] block whose values are not used; None for none.
    """

    terms: SparseRows
    sample: Sample | None = None
    known: SparseRows | None = None
    seen: SparseRows | None = None


class HeadStep(NamedTuple):
    """The result of a step, besides the new parameters.

    Attributes:
      loss: float32 scalar, the weighted sum over the terms, before the update.
      query_gradient: float32 [n, dim], the gradient of the loss with respect to the queries.
      ok: bool scalar; False if the loss, a query or its gradient was not finite, or if `taken` is
        False. Then no row was written, with one exception: a pairwise loss of all sampled negatives
        is summed while rows are written, so its overflow is found afterwards. It does not cover the
        rows that were written: a traced learning rate that is NaN spoils them.
    """

    loss: jax.Array
    query_gradient: jax.Array
    ok: jax.Array


def init_head(
    spec: HeadSpec,
    key: jax.Array,
    dim: int,
    *,
    score_scale: float = 1.0,
    part: tuple[jax.Array, int] | None = None,
) -> Head:
    """A head whose class rows are uniform on the unit sphere, and whose biases are 0.

    Args:
      spec: gives K, the dtype of the rows, whether there are biases, and the optimizer.
      key: a random key, consumed.
      dim: numbers per row.
      score_scale: the factor of the scores, above 0.
      part: (i, parts) for only the i-th of `parts` equal ranges of rows; None for all K.

    Raises:
      InputError: `dim` is no whole number of at least 1, or `score_scale` no finite number above 0.
    """
    if not isinstance(dim, numbers.Integral) or dim < 1:
        raise InputError("dim", repr(dim), "a whole number of at least 1")
    # Its logarithm is taken on the host: a traced scale would have no value yet.
    if hasattr(score_scale, "dtype") and not isinstance(score_scale, jax.core.Tracer):
        score_scale = score_scale.item() if np.ndim(score_scale) == 0 else score_scale
    if not isinstance(score_scale, numbers.Real) or not 0 < score_scale < math.inf:
        raise InputError("score_scale", repr(score_scale)[:80], "a finite number above 0")
    rows = random_rows(key, spec.num_labels, dim, part=part, dtype=spec.table_dtype)
    accumulator = jnp.zeros(rows.shape[0], jnp.float32) if spec.row_rule.has_accumulator else None
    bias = jnp.zeros(rows.shape[0], jnp.float32) if spec.bias else None
    return Head(RowTable(rows, accumulator), bias, jnp.float32(math.log(score_scale)))
