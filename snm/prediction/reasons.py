"""Why a label: a score as a sum over the point's features, the label's bias, and its votes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import block_of, power_of_two
from snm.memory.memory import LABEL_NAME, Witness
from snm.prediction.candidates import values_at
from snm.prediction.programs import jitted_contributions

if TYPE_CHECKING:
    from snm.prediction.predictor import Predictor

__all__ = ["Reason", "reasons_of", "with_words"]

_POINTS = 8  # of a block
# The fewest entries and labels of a block; more are rounded up to a power of two: few are compiled.
_LEAST_ENTRIES, _LEAST_LABELS = 256, 8


class Reason(NamedTuple):
    """What the score of a label is the sum of, up to rounding.

    Attributes:
      features: (feature, what it adds) of the features that add or take most, largest first; a
        feature is a word where the model knows its words, else an id. Of a text, they are some of
        those that it has; standardized features that it lacks add something, too.
      other_features: what all other features add.
      bias: of the label; the logit adjustment is in it.
      votes: what the memory of neighbours adds; 0 without one.
      witnesses: neighbours that voted for the label, the most similar first, as
        `Memory.witnesses` finds them; their features are words likewise.
    """

    features: list[tuple[int | str, float]]
    other_features: float
    bias: float
    votes: float
    witnesses: list[Witness]

    def as_json(self) -> dict[str, Any]:
        """The terms of the sum."""
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
                "train_row": None if one.row < 0 else one.row,
                "label_name": one.row == LABEL_NAME,
                "similarity": round(one.similarity, 4),
                "shares": list(one.features),
            }
            for one in self.witnesses
        ]


def reasons_of(
    predictor: Predictor, rows: csr_matrix, answers: NDArray[np.int32], most: int
) -> list[list[Reason]]:
    """The reasons of the answers of n points; see `Predictor.reasons`.

    Args:
      predictor: on one device.
      rows: CSR [n, d], not weighted.
      answers: int32 [n, k], checked; a label of -1 has a reason without terms.
      most: features of a label that are listed one by one.
    """
    head, memory = predictor.state.head, predictor.memory
    asked = np.maximum(answers, 0)
    bias, votes = np.zeros(answers.shape), np.zeros(answers.shape)
    if head.bias is not None:
        bias = np.asarray(head.bias[jnp.asarray(asked)], np.float64)
    weighted = predictor.weighting.apply(rows)
    words, of_texts = predictor.words, predictor.vectorizer is not None
    spoken: list[list[list[Witness]]] | None = None
    if memory is not None and len(answers):
        queries = None if memory.queries is None else np.concatenate([*predictor.queries(rows)])
        mask = csr_matrix(
            (
                np.ones(asked.size, np.float32),
                asked.ravel(),
                np.arange(len(asked) + 1) * asked.shape[1],
            ),
            shape=(len(asked), predictor.model.spec.num_labels),
        )
        votes = values_at(memory.additions(weighted, queries), mask).reshape(asked.shape)
        found = memory.witnesses(weighted, queries, answers, of_texts=of_texts)
        spoken = with_words(found, words)
    explained = []
    for first in range(0, len(answers), _POINTS):
        of_block = weighted[first : first + _POINTS]
        parts = _parts(predictor, of_block, asked[first : first + _POINTS])
        for row in range(of_block.shape[0]):
            own = slice(of_block.indptr[row], of_block.indptr[row + 1])
            ids, point = of_block.indices[own], first + row
            listed = np.isin(ids, rows[point].nonzero()[1]) if of_texts else np.ones(len(ids), bool)
            of_point = []
            for place, label in enumerate(answers[point]):
                largest, others = _largest(ids, parts[place, own], listed, most, words)
                terms = float(bias[point, place]), float(votes[point, place])
                witnesses = [] if spoken is None else spoken[point][place]
                reason = Reason(largest, others, *terms, witnesses)
                of_point.append(reason if label >= 0 else Reason([], 0.0, 0.0, 0.0, []))
            explained.append(of_point)
    return explained


def with_words(
    spoken: list[list[list[Witness]]], words: Sequence[str] | None
) -> list[list[list[Witness]]]:
    """Witnesses whose features are words where these are known."""
    if words is None:
        return spoken

    def named(one: Witness) -> Witness:
        return one._replace(features=[words[int(feature)] for feature in one.features])

    return [[[named(one) for one in of_label] for of_label in of_point] for of_point in spoken]


def _parts(
    predictor: Predictor, weighted: csr_matrix, labels: NDArray[np.int32]
) -> NDArray[np.float64]:
    """What each entry adds to the scores of its point's labels, [k, entries], k at least 1."""
    count, k = labels.shape
    places = np.where(np.arange(_POINTS) < count, np.arange(_POINTS), -1)
    padded = np.zeros((_POINTS, power_of_two(k, _LEAST_LABELS)), np.int32)
    padded[:count, :k] = labels
    block = block_of(weighted, places, _LEAST_ENTRIES)
    found = jitted_contributions(predictor.model)(predictor.state, block, padded)
    return np.asarray(found, np.float64)[:k, : weighted.nnz]


def _largest(
    ids: NDArray[np.int32],
    parts: NDArray[np.float64],
    listed: NDArray[np.bool_],
    most: int,
    words: Sequence[str] | None,
) -> tuple[list[tuple[int | str, float]], float]:
    """Of the features that may be `listed`, those that add or take most, and the sum of all others.

    Each feature is with what it adds.
    """
    order = np.argsort(np.where(listed, -np.abs(parts), 1), kind="stable")
    count = min(most, int(np.count_nonzero(listed)))
    chosen, others = order[:count], order[count:]
    largest = [(int(ids[i]), float(parts[i])) for i in chosen if parts[i] != 0]
    named = [(feature if words is None else words[feature], part) for feature, part in largest]
    return named, float(parts[others].sum())
