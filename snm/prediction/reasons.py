"""Explains answers: a score as the sum of feature contributions, the label's bias, and votes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import make_block, power_of_two
from snm.data.csr import csr_of_ones
from snm.memory.memory import LABEL_NAME, Memory, Witness
from snm.prediction.candidates.columns import gather_values
from snm.prediction.fitted_model import FittedModel
from snm.prediction.programs import jitted_contributions

__all__ = ["Reason", "explain_answers", "find_witnesses", "queries_of_memory"]

_BLOCK_POINTS = 8  # points of a block
# A block is padded to at least these, and above to powers of two, so that few shapes compile.
_MIN_ENTRIES, _MIN_LABELS = 256, 8


class Reason(NamedTuple):
    """The terms of a label's score; their sum is the score, up to rounding.

    Attributes:
      features: (feature, contribution) of the features with the largest contributions by absolute
        value; a feature is a word if the vectorizer keeps words, else an id. Only features that a
        text has are listed; with standardized features, the others contribute too.
      other_features: the sum of all other contributions.
      bias: of the label, with the logit adjustment.
      votes: what the memory of neighbours adds; 0 without a memory.
      witnesses: neighbours that voted for the label, the most similar first, from
        `Memory.witnesses`; their features are words in the same way.
    """

    features: list[tuple[int | str, float]]
    other_features: float
    bias: float
    votes: float
    witnesses: list[Witness]

    def as_json(self) -> dict[str, Any]:
        """The terms of the sum, for JSON."""
        return {
            "features": [[feature, round(part, 4)] for feature, part in self.features],
            "other_features": round(self.other_features, 4),
            "bias": round(self.bias, 4),
            "votes": round(self.votes, 4),
        }

    def witnesses_as_json(self) -> list[dict[str, Any]]:
        """The witnesses; a label's name and a point of earlier data have no `train_row`."""
        return [
            {
                "train_row": None if witness.row < 0 else witness.row,
                "label_name": witness.row == LABEL_NAME,
                "similarity": round(witness.similarity, 4),
                "shares": list(witness.features),
            }
            for witness in self.witnesses
        ]


def explain_answers(
    fitted: FittedModel, rows: csr_matrix, answers: NDArray[np.int32], most: int
) -> list[list[Reason]]:
    """The reasons of the answers of n points; see `Predictor.reasons`.

    Args:
      fitted: on one device.
      rows: CSR [n, d], not weighted.
      answers: int32 [n, k], checked; a label of -1 has a reason without terms.
      most: the number of features to list for each label.
    """
    if not len(answers):
        return []
    head, memory = fitted.state.head, fitted.memory
    labels = np.maximum(answers, 0)  # without the -1 of padding
    bias, votes = np.zeros(answers.shape), np.zeros(answers.shape)
    if head.bias is not None:
        bias = np.asarray(head.bias[jnp.asarray(labels)], np.float64)
    weighted = fitted.weighting.apply(rows)
    words, of_texts = fitted.words, fitted.vectorizer is not None
    all_witnesses: list[list[list[Witness]]] | None = None
    if memory is not None:
        queries = queries_of_memory(fitted, memory, rows)
        starts = np.arange(len(labels) + 1) * labels.shape[1]
        mask = csr_of_ones(labels.ravel(), starts, (len(labels), fitted.model.spec.num_labels))
        votes = gather_values(memory.additions(weighted, queries), mask).reshape(labels.shape)
        all_witnesses = find_witnesses(fitted, memory, weighted, queries, answers)
    reasons = []
    for first in range(0, len(answers), _BLOCK_POINTS):
        block = weighted[first : first + _BLOCK_POINTS]
        contributions = _contributions(fitted, block, labels[first : first + _BLOCK_POINTS])
        for row in range(block.shape[0]):
            entries = slice(block.indptr[row], block.indptr[row + 1])
            ids, point = block.indices[entries], first + row
            listed = np.isin(ids, rows[point].nonzero()[1]) if of_texts else np.ones(len(ids), bool)
            point_reasons = []
            for rank, label in enumerate(answers[point]):
                if label < 0:
                    point_reasons.append(Reason([], 0.0, 0.0, 0.0, []))
                    continue
                largest, others = _largest_contributions(
                    ids, contributions[rank, entries], listed, most, words
                )
                point_reasons.append(
                    Reason(
                        features=largest,
                        other_features=others,
                        bias=float(bias[point, rank]),
                        votes=float(votes[point, rank]),
                        witnesses=[] if all_witnesses is None else all_witnesses[point][rank],
                    )
                )
            reasons.append(point_reasons)
    return reasons


def queries_of_memory(
    fitted: FittedModel, memory: Memory, rows: csr_matrix
) -> NDArray[np.float32] | None:
    """The queries of at least one point, CSR [n, d], if the memory compares queries; or None."""
    return None if memory.queries is None else np.concatenate([*fitted.queries(rows)])


def find_witnesses(
    fitted: FittedModel,
    memory: Memory,
    weighted: csr_matrix,
    queries: NDArray[np.float32] | None,
    answers: NDArray[np.int32],
) -> list[list[list[Witness]]]:
    """`Memory.witnesses`, whose features are words if the vectorizer keeps words."""
    of_texts, words = fitted.vectorizer is not None, fitted.words
    witnesses = memory.witnesses(weighted, queries, answers, of_texts=of_texts)
    if words is None:
        return witnesses

    def name(witness: Witness) -> Witness:
        return witness._replace(features=[words[int(feature)] for feature in witness.features])

    return [
        [[name(witness) for witness in of_label] for of_label in of_point] for of_point in witnesses
    ]


def _contributions(
    fitted: FittedModel, weighted: csr_matrix, labels: NDArray[np.int32]
) -> NDArray[np.float64]:
    """`feature_contributions` of the points' labels [count, k], float64 [k, entries]."""
    count, k = labels.shape
    rows = np.where(np.arange(_BLOCK_POINTS) < count, np.arange(_BLOCK_POINTS), -1)
    padded = np.zeros((_BLOCK_POINTS, power_of_two(k, _MIN_LABELS)), np.int32)
    padded[:count, :k] = labels
    block = make_block(weighted, rows, _MIN_ENTRIES)
    contributions = jitted_contributions(fitted.model)(fitted.state, block, padded)
    return np.asarray(contributions, np.float64)[:k, : weighted.nnz]


def _largest_contributions(
    ids: NDArray[np.int32],
    contributions: NDArray[np.float64],
    listed: NDArray[np.bool_],
    most: int,
    words: Sequence[str] | None,
) -> tuple[list[tuple[int | str, float]], float]:
    """The largest contributions among the `listed` features, and the sum of all others."""
    order = np.argsort(np.where(listed, -np.abs(contributions), 1), kind="stable")
    count = min(most, int(np.count_nonzero(listed)))
    chosen, others = order[:count], order[count:]
    largest = [
        (int(ids[i]) if words is None else words[int(ids[i])], float(contributions[i]))
        for i in chosen
        if contributions[i] != 0
    ]
    return largest, float(contributions[others].sum())
