"""Prediction: a trained model, raw features -> the best labels."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.vectorizer import Vectorizer
from snm.data.weighting import Weighting
from snm.errors import InputError, counted
from snm.memory.memory import Memory, Witness
from snm.model.model import Model, TrainState
from snm.prediction.best import Asked, best_of, blocking, of_memory, queries_of
from snm.prediction.calibration import UNCALIBRATED, Calibration
from snm.prediction.candidates import by_name, checked_answers, checked_k, ids_of_labels
from snm.prediction.inputs import as_rows
from snm.prediction.own_candidates import LabelIndex
from snm.prediction.point_blocks import stacked
from snm.prediction.reasons import Reason, reasons_of, with_words
from snm.prediction.thresholds import Threshold, threshold_of
from snm.tables.table import SparseRows

__all__ = ["ROWS", "Predictor"]

ROWS = 512
"""Points scored together; a block of their scores fits into the cache."""


@dataclasses.dataclass(frozen=True, eq=False)
class Predictor:
    """A trained model, and all that prediction needs beside it.

    Attributes:
      model: static description.
      state: parameters.
      weighting: of the features, fitted on the training points.
      label_names: K names, or None.
      mesh: the devices that hold the parameters, or None for one.
      vectorizer: turns texts into features, where the model was trained on texts.
      memory: adds the labels of a point's nearest training points, in one process; or None.
        `queries` are of the model alone.
      index: finds the labels to score for each point, or None: all are scored. What it misses is no
        answer, unless the memory votes for it or a caller names it.
      calibration: what makes its scores probabilities, or None.
      why_uncalibrated: what was found in its place, and what is expected, for messages.
      block_rows: the most points scored together. The last block is padded, so that one program
        serves all; calls of at most 64 or 8 points have blocks of that size.
      block_entries: the fewest feature entries of a padded block, for the same reason.
    """

    model: Model
    state: TrainState
    weighting: Weighting
    label_names: Sequence[str] | None = None
    mesh: Mesh | None = None
    vectorizer: Vectorizer | None = None
    memory: Memory | None = None
    index: LabelIndex | None = None
    calibration: Calibration | None = None
    why_uncalibrated: tuple[str, str] = UNCALIBRATED
    block_rows: int = ROWS
    block_entries: int = 8

    def __repr__(self) -> str:
        """The sizes; the arrays and the vocabulary would fill pages."""
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

    @property
    def words(self) -> Sequence[str] | None:
        """The word of each feature, where the model knows its words."""
        return None if self.vectorizer is None else self.vectorizer.vocabulary

    def blank(self, rows: csr_matrix) -> NDArray[np.bool_]:
        """Which points of `as_rows` have no known word or feature: bool [n]; see `Weighting`."""
        return self.weighting.blank(rows, of_texts=self.vectorizer is not None)

    def top(
        self,
        features: csr_matrix | Sequence[str],
        k: int | None = None,
        labels: Any = None,
        exclude: Any = None,
    ) -> Iterator[tuple[NDArray, NDArray]]:
        """The best labels, a block of points at a time; ties go to the lowest label.

        They are exact, unless `index` misses some.

        Args:
          features: CSR [n, d], not weighted, as in the data files; or n texts, where the model was
            trained on texts; or n lists of items, where these texts list items.
          k: how many labels; None is 5, or as many as there are to choose from.
          labels: ids or names of the labels to choose from, for all points; or for each of the n
            points a sequence of these, or CSR [n, K] whose non-zero entries they are. None is all
            K. The cost grows with their number, not with K. `ids_of` can leave out unknown names.
          exclude: ids or names of labels that are no answers, in the same forms, also with
            `labels`. None, or an empty sequence, leaves out nothing. The cost grows with the most
            of them that a point has, since so many more labels are found.

        Returns:
          an iterator of int32 [m, k] labels and float32 [m, k] scores, in the order of the points.
          A label is -1 where a point is left fewer than k labels, by `labels`, by `exclude` or by
          `Model.drop_seen`.

        Raises:
          InputError: another number of features, k not from 1 to K, `labels` or `exclude` that are
            neither ids nor names of labels, or of another number of points, no `labels`, or texts
            for a model that was not trained on texts.
        """
        return self._top(Asked.of(self, features, k, labels, exclude))

    def _top(self, asked: Asked) -> Iterator[tuple[NDArray, NDArray]]:
        """`top` of checked arguments."""
        first = 0
        for found, scores in best_of(self, asked):
            if asked.excluded is not None:
                found, scores = asked.excluded.dropped(found, asked.k, first, scores)
            yield found, scores
            first += len(found)

    def probabilities(
        self, scores: NDArray[np.floating], *, ranked: bool = True
    ) -> NDArray[np.float32]:
        """The probability that a label is right, from its score, in the shape of the scores.

        Args:
          scores: [..., k], those of `top` or `predict`.
          ranked: whether they are of the best of all labels, best first; False if they were chosen
            from some labels.

        Raises:
          InputError: the model has no calibration.
        """
        return self.fitted_calibration()(scores, members=self.model.members, ranked=ranked)

    def fitted_calibration(self, option: str = "--probabilities") -> Calibration:
        """The calibration.

        Args:
          option: that asks for it, for the message.

        Raises:
          InputError: the model has none.
        """
        if self.calibration is None:
            raise InputError(option, *self.why_uncalibrated)
        return self.calibration

    def threshold(self, asked: str | float) -> Threshold:
        """From what probability on a label is an answer: a number, or what is to be highest.

        Args:
          asked: a probability; or `micro-f1`, `macro-f1` or `f1@k`, k from 1 to 10, which the
            training has chosen a threshold for, on the points that tell the probabilities.

        Raises:
          InputError: anything else, or the run has no probabilities or no such threshold.
        """
        return threshold_of(self.fitted_calibration("--threshold").thresholds, asked)

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
        cut = self._cut(threshold)
        asked = Asked.of(self, features, cut.k_or_own(k), labels, exclude, ranked=True)
        return self._top_proba(asked, cut)

    def _cut(self, threshold: str | float | None) -> Threshold:
        """The threshold that is asked for, or one that keeps all."""
        self.fitted_calibration("--probabilities" if threshold is None else "--threshold")
        return self.threshold(0.0 if threshold is None else threshold)

    def _top_proba(
        self, asked: Asked, cut: Threshold
    ) -> Iterator[tuple[NDArray, NDArray, NDArray]]:
        """`top_proba` of checked arguments."""
        first = 0
        for found, scores in best_of(self, asked):
            p = self.probabilities(scores, ranked=asked.among is None)
            if asked.excluded is not None:
                found, scores, p = asked.excluded.dropped(found, asked.k, first, scores, p)
            kept = cut(found, p)
            yield np.where(kept, found, -1), scores, np.where(kept, p, 0)
            first += len(found)

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

        Each is the probability that the point has the label, whatever others it has; those of a
        point need not sum to 1. Among `labels` they are those of the score alone, which are less
        exact. Where a label is -1, the probability is 0.

        Args:
          features: as in `top`.
          k: as in `top`; None is that of the threshold, where it was chosen on so many.
          labels: as in `top`.
          exclude: as in `top`. The probabilities of the labels that are left stay the same.
          threshold: as in `threshold`: less likely labels are -1. None keeps all.

        Raises:
          InputError: as in `top`, `probabilities` and `threshold`.
        """
        cut = self._cut(threshold)  # before it takes time
        asked = Asked.of(self, features, cut.k_or_own(k), labels, exclude, ranked=True)
        return stacked(((found, p) for found, _, p in self._top_proba(asked, cut)), asked.k)

    def ids_of(
        self, labels: Iterable[int | str], *, skip_unknown: bool = False
    ) -> NDArray[np.int32]:
        """The ids of labels, int32 [S]: texts are names, whole numbers are ids.

        Args:
          labels: names, ids or both.
          skip_unknown: leave out names that no label has, as a list of what is in stock has some.

        Raises:
          InputError: an id that is not from 0 to K - 1, an unknown name, one of several labels, a
            name where the labels have none, or what is no sequence of these.
        """
        if isinstance(labels, str) or not isinstance(labels, Iterable):
            found = "one text" if isinstance(labels, str) else f"{labels!r}"[:40]
            raise InputError("labels", found, "a sequence of ids or names")
        labels = list(labels)
        named = any(isinstance(label, str) for label in labels)  # else no name need be read
        names, num_labels = self.id_of_name if named else {}, self.model.spec.num_labels
        return ids_of_labels(labels, num_labels, names, skip_unknown=skip_unknown)

    @functools.cached_property
    def id_of_name(self) -> dict[str, int]:
        """For `ids_of_labels`; of millions of labels the first use takes seconds."""
        return by_name(self.label_names or ())

    def checked_k(self, k: int | None) -> int:
        """How many labels to answer with, where all may be answers.

        Args:
          k: as in `top`.

        Raises:
          InputError: not from 1 to K.
        """
        return checked_k(k, None, self.model.spec.num_labels)

    def witnesses(
        self, features: csr_matrix | Sequence[str], answers: NDArray[np.int32]
    ) -> list[list[list[Witness]]]:
        """The training points whose labels spoke for the answers; see `Memory.witnesses`.

        The features that they share are words where the model knows its words.

        Args:
          features: as in `top`.
          answers: int [n, k], the labels that `top` gave.

        Raises:
          InputError: as in `top`; `answers` as in `reasons`; or the model has no memory.
        """
        if self.memory is None:
            found = "a run without a memory of neighbours"
            raise InputError("witnesses", found, "one trained with --memory on")
        rows, witnesses, first = self.as_rows(features), [], 0
        answers = self._answers(answers, rows)
        for count, block in self._blocks(rows):
            weighted, queries = of_memory(self, self.memory, rows, first, count, block)
            some, of_texts = answers[first : first + count], self.vectorizer is not None
            witnesses += self.memory.witnesses(weighted, queries, some, of_texts=of_texts)
            first += count
        return with_words(witnesses, self.words)

    def reasons(
        self, features: csr_matrix | Sequence[str], answers: NDArray[np.int32], most: int = 5
    ) -> list[list[Reason]]:
        """What the scores of answers are sums of: features, bias, votes; exact up to rounding.

        Features are words where the model was trained on texts and its vectoriser keeps words.

        The model's part of a score is a sum over the point's features once the length of the
        query and the active units of the encoder are known; see `snm.model.feature_contributions`.

        Args:
          features: as in `top`.
          answers: int [n, k], labels for each point, such as those that `top` gave.
          most: features that are listed one by one, those that add or take most.

        Returns:
          for each point and each of its labels, the terms of its score and who voted for it.

        Raises:
          InputError: as in `top`; answers that are no labels; or the model is spread over a mesh.
        """
        if self.mesh is not None:
            raise InputError("reasons", "a model on a mesh", "one on one device, as of snm.load")
        rows = self.as_rows(features)
        return reasons_of(self, rows, self._answers(answers, rows), most)

    def _answers(self, answers: Any, rows: csr_matrix) -> NDArray[np.int32]:
        return checked_answers(answers, rows.shape[0], self.model.spec.num_labels)

    def queries(self, features: csr_matrix | Sequence[str]) -> Iterator[NDArray[np.float32]]:
        """Queries, whose inner products with the class rows are the scores without the biases.

        Args:
          features: as in `top`.

        Yields:
          float32 [m, members * dim], a block of points at a time.

        Raises:
          InputError: as in `top`.
        """
        for count, block in self._blocks(self.as_rows(features)):
            yield queries_of(self, block, count)

    def most_entries(self, features: csr_matrix) -> int:
        """The feature entries of the fullest block of points, CSR [n, d]."""
        return blocking(self, None).most_entries(features)

    def as_rows(self, features: csr_matrix | Sequence[str]) -> csr_matrix:
        """Features or texts as CSR [n, d], not weighted.

        Raises:
          InputError: as in `top`.
        """
        return as_rows(features, self.model.num_features, self.vectorizer)

    def _blocks(self, rows: csr_matrix) -> Iterator[tuple[int, SparseRows]]:
        """Blocks of weighted points, each with the number of its points."""
        return blocking(self, self.mesh, rows.shape[0]).of(rows)

    def predict(
        self,
        features: csr_matrix | Sequence[str],
        k: int | None = None,
        labels: Any = None,
        exclude: Any = None,
    ) -> tuple[NDArray, NDArray]:
        """The best labels of all points (or texts): int32 [n, k] labels, float32 [n, k] scores.

        Args:
          features: as in `top`.
          k: as in `top`.
          labels: as in `top`: the labels to choose from.
          exclude: as in `top`: labels that are no answers.

        Raises:
          InputError: as in `top`.
        """
        asked = Asked.of(self, features, k, labels, exclude)
        return stacked(self._top(asked), asked.k)
