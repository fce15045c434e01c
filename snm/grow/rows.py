"""Rows for new labels, beside the rows of a trained model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.dataset import Dataset
from snm.model.model import TrainState
from snm.model.predictor import Predictor
from snm.tables.rounding import to_nearest
from snm.tables.table import RowTable, random_rows

__all__ = ["Origins", "bias_of", "grow_state", "new_rows"]


@dataclasses.dataclass(frozen=True)
class Origins:
    """How many new rows started where: at their points, at their name, at random."""

    points: int
    names: int
    random: int


def new_rows(
    predictor: Predictor, names: Sequence[str], dataset: Dataset | None, seed: int
) -> tuple[NDArray[np.float32], Origins]:
    """Unit rows of one member for new labels.

    Args:
      predictor: one member, of K labels.
      names: of the new labels, whose ids start at K.
      dataset: data of all labels, or None.
      seed: of rows that nothing is known of.

    Returns:
      float32 [new, dim]: the direction of the mean query of the label's training points; without
      points, of the query of its name, where the model knows texts; else a random one.
    """
    first, count = predictor.model.head.num_labels, len(names)
    sums = np.zeros((count, predictor.model.dim), np.float64)
    origin = np.full(count, "random", dtype="U6")
    if dataset is not None:
        labels = csr_matrix(dataset.train.labels)[:, first:]
        has = np.flatnonzero(np.diff(labels.indptr))
        if len(has):
            queries = np.concatenate(list(predictor.queries(dataset.train.features[has])))
            sums += labels[has].T @ queries.astype(np.float64)
        origin[np.linalg.norm(sums, axis=1) > 0] = "points"
    left = np.flatnonzero(origin == "random")
    if predictor.vectorizer is not None and len(left):
        found = np.concatenate(list(predictor.queries([names[int(j)] for j in left])))
        sums[left] = found
        origin[left[np.linalg.norm(found, axis=1) > 0]] = "names"
    left = np.flatnonzero(origin == "random")
    if len(left):
        drawn = random_rows(jax.random.key(seed), count, predictor.model.dim)
        sums[left] = np.asarray(drawn)[left]
    rows = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    counts = {name: int((origin == name).sum()) for name in ("points", "names", "random")}
    return rows.astype(np.float32), Origins(**counts)


def bias_of(
    old: NDArray[np.float32], frequency: NDArray[np.int64] | None, count: int
) -> NDArray[np.float32]:
    """Biases of new labels, float32 [count].

    A learned bias goes with how frequent a label is: the least-squares line of the old biases
    [K] over log(1 + frequency), at the new labels' frequencies. Without frequencies (int
    [K + count]), or where the old ones do not differ, the median of the old.
    """
    x = None if frequency is None else np.log1p(frequency.astype(np.float64))
    if x is None or np.ptp(x[: len(old)]) == 0:
        return np.full(count, np.median(old), np.float32)
    slope, start = np.polyfit(x[: len(old)], old.astype(np.float64), 1)
    return (start + slope * x[len(old) :]).astype(np.float32)


def grow_state(
    state: TrainState, rows: NDArray[np.float32], bias: NDArray[np.float32] | None
) -> TrainState:
    """The state of one member with rows [new, dim] (and biases [new]) after the old ones."""
    head, table = state.head, state.head.table
    accumulator = table.accumulator
    if accumulator is not None:
        accumulator = jnp.concatenate([accumulator, jnp.zeros(len(rows), accumulator.dtype)])
    more = to_nearest(jnp.asarray(rows), table.rows.dtype)
    grown = RowTable(jnp.concatenate([table.rows, more]), accumulator)
    biases = head.bias
    if biases is not None:
        assert bias is not None
        biases = jnp.concatenate([biases, jnp.asarray(bias)])
    return dataclasses.replace(state, head=dataclasses.replace(head, table=grown, bias=biases))
