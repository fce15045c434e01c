"""Prediction: a trained model, raw features -> the top-k labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.errors import InputError
from snm.memory.memory import Memory, Witness
from snm.model.inference import add_to_biases
from snm.prediction.calibration import Calibration
from snm.prediction.candidates.parse import parse_answers
from snm.prediction.fitted_model import FittedModel
from snm.prediction.point_blocks import concatenate_blocks
from snm.prediction.reasons import Reason, explain_answers, find_witnesses, queries_of_memory
from snm.prediction.thresholds import Threshold, find_threshold
from snm.prediction.top_labels import PredictRequest, predict_blocks
from snm.text import counted

__all__ = ["Predictor"]


@dataclasses.dataclass(frozen=True, eq=False)
class Predictor(FittedModel):
    """A trained model that answers: its arguments are the attributes of `FittedModel`."""

    def __repr__(self) -> str:
        """The sizes, without the arrays and the vocabulary."""
        model = self.model
        parts = [
            counted(model.spec.num_labels, "label"),
            counted(model.num_features, "feature"),
            counted(model.members, "member"),
            *(["of texts"] if self.vectorizer is not None else []),
            *(["with a memory"] if self.memory is not None else []),
            *(["with an index"] if self.index is not None else []),
        ]
        return f"Predictor({', '.join(parts)})"

    def with_choice(
        self,
        memory: Memory | None,
        shifts: np.ndarray | None,
        calibration: Calibration | None,
    ) -> Self:
        """The model with what held-out points chose.

        Args:
          memory: of neighbours; None is none.
          shifts: float32 [K], the logit adjustment, which is added to the biases; None is none.
          calibration: of the scores with these; None is none.
        """
        state = self.state if shifts is None else add_to_biases(self.state, shifts)
        return dataclasses.replace(self, state=state, memory=memory, calibration=calibration)

    def top(
        self,
        features: csr_matrix | Sequence[str],
        k: int | None = None,
        labels: Any = None,
        exclude: Any = None,
    ) -> Iterator[tuple[NDArray, NDArray]]:
        """The top k labels, a block of points at a time; ties go to the lowest label.

        They are exact, unless `index` misses some.

        Args:
          features: a matrix [n, d] of SciPy (any form), NumPy or JAX, or n lists of d numbers; not
            weighted, as in the data files. Or n texts, if the model was trained on texts; or n
            lists of items, if these texts list items.
          k: the number of labels per point; None is 5, or all if there are fewer candidates.
          labels: ids or names of the candidate labels, for all points; or for each of the n
            points a sequence of these, or CSR [n, K] whose non-zero entries are the candidates.
            None is all K. The cost grows with their number, not with K. `ids_of` can leave out
            unknown names.
          exclude: ids or names of labels to exclude, in the same forms, also with `labels`. None
            or an empty sequence excludes nothing. The cost grows with the largest number of
            excluded labels of a point, since so many more labels are found.

        Returns:
          An iterator of int32 [m, k] labels and float32 [m, k] scores, in the order of the points.
          Labels are padded with -1 if `labels`, `exclude` or `Model.drop_seen` leave fewer than k.

        Raises:
          InputError: another number of features, k not from 1 to K, `labels` or `exclude` that are
            neither ids nor names of labels, or are for another number of points, empty `labels`, or
            texts for a model that was not trained on texts.
        """
        return self._answers(PredictRequest.of(self, features, k, labels, exclude))

    def _answers(
        self, request: PredictRequest, *, probabilities: bool = False
    ) -> Iterator[tuple[Any, ...]]:
        """Blocks of labels, scores and, if asked for, probabilities, without excluded labels."""
        first = 0
        for labels, *values in predict_blocks(self, request):
            if probabilities:
                values.append(self.probabilities(values[0], ranked=request.among is None))
            if request.excluded is not None:
                labels, *values = request.excluded.drop(labels, request.k, first, *values)
            yield labels, *values
            first += len(labels)

    def probabilities(
        self, scores: NDArray[np.floating], *, ranked: bool = True
    ) -> NDArray[np.float32]:
        """The probability of each label, from its score, in the shape of the scores.

        Args:
          scores: [..., k], from `top` or `predict`.
          ranked: whether the scores are of the top labels among all, best first; False if the
            labels were chosen among candidates.

        Raises:
          InputError: the model has no calibration.
        """
        return self.fitted_calibration()(scores, members=self.model.members, ranked=ranked)

    def fitted_calibration(self, option: str = "--probabilities") -> Calibration:
        """The calibration.

        Args:
          option: the option that needs it, for the message.

        Raises:
          InputError: the model has none.
        """
        if self.calibration is None:
            raise InputError(option, *self.why_uncalibrated)
        return self.calibration

    def threshold(self, asked: str | float) -> Threshold:
        """The least probability of an answer: a number, or the threshold that maximizes a metric.

        Args:
          asked: a probability; or `micro-f1`, `macro-f1` or `f1@k`, k from 1 to 10: the threshold
            that maximizes it on the held-out points that the probabilities were fitted on.

        Raises:
          InputError: anything else, or the run has no probabilities or no such threshold.
        """
        return find_threshold(self.fitted_calibration("--threshold").thresholds, asked)

    def top_proba(
        self,
        features: csr_matrix | Sequence[str],
        k: int | None = None,
        labels: Any = None,
        exclude: Any = None,
        *,
        threshold: str | float | None = None,
    ) -> Iterator[tuple[NDArray, NDArray, NDArray]]:
        """As `top`, with the probability of each label beside its score, float32 [m, k].

        Arguments, probabilities and errors are as in `predict_proba`.
        """
        return self._top_proba(*self._proba_request(features, k, labels, exclude, threshold))

    def _proba_request(
        self,
        features: csr_matrix | Sequence[str],
        k: int | None,
        labels: Any,
        exclude: Any,
        threshold: str | float | None,
    ) -> tuple[PredictRequest, Threshold]:
        """The checked arguments of `predict_proba`; without a threshold, one that keeps all."""
        if threshold is None:
            self.fitted_calibration()
        chosen = Threshold(0.0) if threshold is None else self.threshold(threshold)
        k = chosen.k if k is None else k
        request = PredictRequest.of(self, features, k, labels, exclude, ranked=True)
        return request, chosen

    def _top_proba(
        self, request: PredictRequest, threshold: Threshold
    ) -> Iterator[tuple[NDArray, NDArray, NDArray]]:
        """`top_proba` of checked arguments."""
        for labels, scores, p in self._answers(request, probabilities=True):
            kept = threshold(labels, p)
            yield np.where(kept, labels, -1), scores, np.where(kept, p, 0)

    def predict_proba(
        self,
        features: csr_matrix | Sequence[str],
        k: int | None = None,
        labels: Any = None,
        exclude: Any = None,
        *,
        threshold: str | float | None = None,
    ) -> tuple[NDArray, NDArray]:
        """As `predict`, with probabilities in place of scores: int32 [n, k] and float32 [n, k].

        Each is the probability that the point has the label, independent of its other labels; the
        probabilities of a point need not sum to 1. With `labels` they depend on the score alone and
        are less accurate. The probability of a label -1 is 0.

        Args:
          features: as in `top`.
          k: as in `top`; None is the k that the threshold was chosen for, if there is one.
          labels: as in `top`.
          exclude: as in `top`. It does not change the probabilities of the other labels.
          threshold: as in `threshold`: less likely labels become -1. None keeps all.

        Raises:
          InputError: as in `top`, `probabilities` and `threshold`.
        """
        request, chosen = self._proba_request(features, k, labels, exclude, threshold)
        blocks = ((ids, p) for ids, _, p in self._top_proba(request, chosen))
        return concatenate_blocks(blocks, request.k)

    def witnesses(
        self, features: csr_matrix | Sequence[str], answers: NDArray[np.int32]
    ) -> list[list[list[Witness]]]:
        """The training points that voted for the answers; see `Memory.witnesses`.

        The features that they share are words if the vectorizer keeps words.

        Args:
          features: as in `top`.
          answers: int [n, k], the labels that `top` returned.

        Raises:
          InputError: as in `top`; `answers` as in `reasons`; or the model has no memory.
        """
        if self.memory is None:
            found = "a run without a memory of neighbours"
            raise InputError("witnesses", found, "one trained with --memory on")
        rows = self.as_rows(features)
        answers = self._check_answers(answers, rows)
        witnesses = []
        for first in range(0, rows.shape[0], self.block_rows):
            part = slice(first, first + self.block_rows)
            inputs = (
                self.weighting.apply(rows[part]),
                queries_of_memory(self, self.memory, rows[part]),
            )
            witnesses += find_witnesses(self, self.memory, *inputs, answers[part])
        return witnesses

    def reasons(
        self, features: csr_matrix | Sequence[str], answers: NDArray[np.int32], most: int = 5
    ) -> list[list[Reason]]:
        """The terms that add up to the scores of answers: features, bias and votes.

        The sum is exact up to rounding; `snm.model.feature_contributions` says why. Features are
        words if the model was trained on texts and its vectorizer keeps words.

        Args:
          features: as in `top`.
          answers: int [n, k], labels for each point, such as those that `top` returned.
          most: the number of features to list, those with the largest contributions.

        Returns:
          For each point and each of its labels, the terms of its score and who voted for it.

        Raises:
          InputError: as in `top`; answers that are not labels; or the model is sharded over a mesh.
        """
        if self.mesh is not None:
            raise InputError("reasons", "a model on a mesh", "one on one device, as of snm.load")
        rows = self.as_rows(features)
        return explain_answers(self, rows, self._check_answers(answers, rows), most)

    def _check_answers(self, answers: Any, rows: csr_matrix) -> NDArray[np.int32]:
        return parse_answers(answers, rows.shape[0], self.model.spec.num_labels)

    def predict(
        self,
        features: csr_matrix | Sequence[str],
        k: int | None = None,
        labels: Any = None,
        exclude: Any = None,
    ) -> tuple[NDArray, NDArray]:
        """The top k labels of all points or texts: int32 [n, k] labels, float32 [n, k] scores.

        Args:
          features: as in `top`.
          k: as in `top`.
          labels: as in `top`: the candidate labels.
          exclude: as in `top`: labels to exclude.

        Raises:
          InputError: as in `top`.
        """
        request = PredictRequest.of(self, features, k, labels, exclude)
        return concatenate_blocks(self._answers(request), request.k)
