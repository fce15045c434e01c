"""Computes class rows and biases for new labels of a trained model."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.dataset import Dataset, name_to_text
from snm.grow.name_rows import names_predict_rows, predict_rows_from_names
from snm.model.model import TrainState
from snm.prediction.predictor import Predictor
from snm.tables.rounding import as_float, round_to_nearest
from snm.tables.table import RowTable, random_rows

__all__ = ["NewRowCounts", "grow_state", "new_rows", "predict_biases"]


@dataclasses.dataclass(frozen=True)
class NewRowCounts:
    """The number of new rows by origin: from training points, from the label's name, random."""

    points: int
    names: int
    random: int

    @property
    def total(self) -> int:
        """The number of new labels."""
        return self.points + self.names + self.random


def new_rows(
    predictor: Predictor, names: Sequence[str], dataset: Dataset | None, seed: int
) -> tuple[NDArray[np.float32], NewRowCounts]:
    """Class rows of unit length for new labels, for one member of a model.

    A row is the direction of the mean query of the label's training points. Without points, it is
    the direction of the query of the label's name, if the model has a vectorizer. Else it is
    predicted from the names and rows of the old labels, if names predict rows
    (`snm.grow.name_rows`); otherwise it is random.

    Args:
      predictor: one member, with K labels and, if known, their names.
      names: the names of the new labels, whose ids start at K.
      dataset: data with all labels, or None.
      seed: the seed of the random rows.

    Returns:
      float32 [new, dim], and their number by origin.
    """
    first, count = predictor.model.spec.num_labels, len(names)
    sums = np.zeros((count, predictor.model.dim), np.float64)
    origin = np.full(count, "random", dtype="U6")
    if dataset is not None:
        labels = csr_matrix(dataset.train.labels)[:, first:]
        points = dataset.train.labelled()  # without points of weight 0
        points = points[np.diff(labels.indptr)[points] > 0]
        if len(points):
            queries = np.concatenate(list(predictor.queries(dataset.train.features[points])))
            if dataset.train.weights is not None:
                queries = queries * dataset.train.weights[points, None]
            sums += labels[points].T @ queries.astype(np.float64)
        origin[np.linalg.norm(sums, axis=1) > 0] = "points"
    remaining = np.flatnonzero(origin == "random")
    if predictor.vectorizer is not None and len(remaining):
        features = predictor.as_rows([name_to_text(names[int(j)]) for j in remaining])
        queries = np.concatenate(list(predictor.queries(features)))
        queries[predictor.blank(features)] = 0  # equal for all names without a known word
        sums[remaining] = queries
        origin[remaining[np.linalg.norm(queries, axis=1) > 0]] = "names"
    remaining = np.flatnonzero(origin == "random")
    if predictor.label_names is not None and len(remaining):
        old = np.asarray(as_float(predictor.state.head.table.rows))[:first]
        if names_predict_rows(old, predictor.label_names):
            new = [names[int(j)] for j in remaining]
            sums[remaining] = predict_rows_from_names(old, predictor.label_names, new)
            origin[remaining[np.linalg.norm(sums[remaining], axis=1) > 0]] = "names"
    remaining = np.flatnonzero(origin == "random")
    if len(remaining):
        # Growing the same run again draws other rows.
        key = jax.random.fold_in(jax.random.key(seed), first)
        drawn = random_rows(key, count, predictor.model.dim)
        sums[remaining] = np.asarray(drawn)[remaining]
    rows = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    counts = {name: int((origin == name).sum()) for name in ("points", "names", "random")}
    return rows.astype(np.float32), NewRowCounts(**counts)


def predict_biases(
    old: NDArray[np.float32], frequency: NDArray[np.int64] | None, count: int
) -> NDArray[np.float32]:
    """Predicts the biases of new labels from their frequencies.

    Learned biases grow with label frequency. So this fits a least-squares line to the old biases
    over log(1 + frequency) and evaluates it at the frequencies of the new labels. If
    the data have few of the old points, the line fits badly, so new biases are clipped to the
    range of the old ones.

    Args:
      old: float32 [K], the learned biases.
      frequency: int [K + count], or None. Without it, or if all old labels have the same frequency,
        the new biases are the median of the old ones.
      count: the number of new labels.

    Returns:
      float32 [count].
    """
    x = None if frequency is None else np.log1p(frequency.astype(np.float64))
    if x is None or np.ptp(x[: len(old)]) == 0:
        return np.full(count, np.median(old), np.float32)
    slope, start = np.polyfit(x[: len(old)], old.astype(np.float64), 1)
    return np.clip(start + slope * x[len(old) :], old.min(), old.max()).astype(np.float32)


def grow_state(
    state: TrainState, rows: NDArray[np.float32], bias: NDArray[np.float32] | None
) -> TrainState:
    """Appends rows [new, dim], and biases [new] if the model has them, to one member's state."""
    head, table = state.head, state.head.table
    accumulator = table.accumulator
    if accumulator is not None:
        accumulator = jnp.concatenate([accumulator, jnp.zeros(len(rows), accumulator.dtype)])
    new_rows = round_to_nearest(jnp.asarray(rows), table.rows.dtype)
    grown = RowTable(jnp.concatenate([table.rows, new_rows]), accumulator)
    biases = head.bias
    if biases is not None:
        assert bias is not None
        biases = jnp.concatenate([biases, jnp.asarray(bias)])
    return dataclasses.replace(state, head=dataclasses.replace(head, table=grown, bias=biases))
