"""The parameters of the head, their initialisation, and what goes into a step and comes out."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from snm.head.spec import HeadSpec
from snm.sampling.sample import Sample
from snm.tables.table import RowTable, SparseRows, random_rows

__all__ = ["Head", "HeadBatch", "HeadStep", "init_head"]


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["table", "bias", "log_scale"], meta_fields=[]
)
@dataclasses.dataclass(frozen=True)
class Head:
    """The head's parameters.

    Attributes:
      table: the class rows [K, dim], each of unit length, and their optimiser's state.
      bias: float32 [K] or None.
      log_scale: float32 scalar, natural logarithm of the multiplier of the scores.
    """

    table: RowTable
    bias: jax.Array | None
    log_scale: jax.Array


class HeadBatch(NamedTuple):
    """The labels that a step of the head trains n queries on: positives, negatives, neither.

    Attributes:
      terms: the positives as an [n, K] block of T entries: int32 label ids, and the float32 weight
        of each term in the loss (0 for padding). With `spec.positives == "one"`, entry i belongs to
        row i.
      sample: the labels drawn for this batch, at least B + 1 slots; None where `spec.samples_all`.
      known: all known labels of the n points as an [n, K] block, whose entries of value 0 are
        padding; needed for `spec.exclude == "all"` alone.
      seen: labels that are no answers to the n points, and with `spec.exclude == "all"` no
        negatives either, as an [n, K] block whose values mean nothing; None for none.
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
      ok: bool scalar; False if a value was not finite, or `taken` is. No row was written then, with
        one exception: a pairwise loss of every sampled negative is summed while rows are written,
        so that its overflow is seen too late.
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
      spec: K, the dtype of the rows, whether there are biases, and the optimiser.
      key: consumed.
      dim: of a row.
      score_scale: the multiplier of the scores, above 0.
      part: (i, parts) for the i-th of so many equal ranges of rows; None for all K.
    """
    rows = random_rows(key, spec.num_labels, dim, part=part, dtype=spec.table_dtype)
    accumulator = jnp.zeros(rows.shape[0]) if spec.row_rule.has_accumulator else None
    bias = jnp.zeros(rows.shape[0]) if spec.bias else None
    return Head(RowTable(rows, accumulator), bias, jnp.float32(math.log(score_scale)))
