"""What a fitted estimator answers, and the folder that answers as it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    validate_data,
)

from snm.config.resolved import ResolvedConfig
from snm.errors import InputError
from snm.estimator.inputs import canonical
from snm.estimator.targets import Targets
from snm.prediction.predictor import Predictor
from snm.prediction.thresholds import MAX_ANSWERS, parse_threshold

__all__ = ["Answers"]

_MOST_ENTRIES = 1 << 26  # of `predict_proba`: half a GiB


class Answers:
    """The answers of `SNMClassifier`, which sets these attributes."""

    labels_per_point: int | str
    threshold: float | str | None
    classes_: NDArray[Any]
    predictor_: Predictor
    _targets: Targets
    config_: ResolvedConfig
    _mean_labels: float

    def decision_topk(
        self, X: Any, k: int | None = None, labels: Any = None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The k best labels of each point, exactly, ties to the lowest label.

        Args:
          X: inputs [n, d].
          k: how many labels, 1 to K, or to the number of `labels`; None is 5, or as many as there
            are where these are fewer.
          labels: entries of `classes_` to choose from; None is all. The cost grows with their
            number, not with K.

        Returns:
          labels [n, k], entries of `classes_`, best first; their scores, float32 [n, k]: natural
          logarithms of unnormalised probabilities after a softmax loss, margins otherwise; with
          what a memory adds, where one is used.

        Raises:
          ValueError: inputs of another width, a k that is out of range, an unknown label.
        """
        check_is_fitted(self, "predictor_")
        among = None if labels is None else self._targets.columns(labels)
        if among is not None and k is not None and k > len(among):
            raise InputError("k", str(k), f"1 to {len(among)}, the number of labels")
        slots, scores = self._best(X, k, among)
        return self.classes_[slots], scores

    def proba_topk(
        self, X: Any, k: int | None = None, labels: Any = None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """`decision_topk` with the probability that each label is right in place of scores.

        `fit` fits them on the points that choose the memory. Those of a point need not sum to 1.

        Raises:
          ValueError: as `decision_topk`; or `fit` tried no memory, or `partial_fit` came after.
        """
        check_is_fitted(self, "predictor_")
        self.predictor_.fitted_calibration()  # refused before it takes time
        found, scores = self.decision_topk(X, k, labels)
        return found, self.predictor_.probabilities(scores, ranked=labels is None)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of every class, as scikit-learn's scorers ask for it: float64 [n, K].

        Columns are in the order of `classes_`. With one class a point, rows sum to 1: they are the
        softmax of the scores over the number of members. With several labels a point, an entry is
        the probability that the point has the label, as `proba_topk` gives it.

        It takes memory and time by n * K. For many classes use `proba_topk`.

        Raises:
          ValueError: inputs of another width, over 2**26 entries; with one class a point, a loss
            whose scores are no logarithms of probabilities, such as bowl; with several labels, as
            `proba_topk`.
        """
        check_is_fitted(self, "predictor_")
        several = self._targets.form != "classes"
        if several:
            self.predictor_.fitted_calibration("predict_proba")
        elif not self.predictor_.model.spec.head_loss.takes_exponentials:
            found = f"scores of the loss {self.config_.loss}, which are no logarithms"
            raise InputError("predict_proba", found, "loss='softmax', or proba_topk")
        count, num_labels = _num_samples(X), len(self.classes_)
        if count * num_labels > _MOST_ENTRIES:
            found = f"{count} points x {num_labels} classes"
            expected = f"at most {_MOST_ENTRIES} entries at once, or proba_topk"
            raise InputError("predict_proba", found, expected)
        by_class, first = np.empty((count, num_labels)), 0
        for slots, scores in self.predictor_.top(self._rows(X), num_labels):
            if several:
                p = self.predictor_.probabilities(scores).astype(np.float64)
            else:
                p = softmax(scores.astype(np.float64) / self.config_.members, axis=1)
            block = by_class[first : first + len(p)]
            np.put_along_axis(block, slots.astype(np.int64), p, axis=1)
            first += len(p)
        return by_class

    def predict(self, X: Any) -> Any:
        """The best class of each point [n], or its best `labels_per_point` labels, as y was.

        With a `threshold`, a point of a multi-label problem has the labels that are so likely.

        Raises:
          ValueError: inputs of another width, a threshold that is none, or that `fit` did not
            choose.
        """
        check_is_fitted(self, "predictor_")
        if self.threshold is not None and self._targets.form != "classes":
            cut = self.predictor_.threshold(self.threshold)
            slots, scores = self._best(
                X, min(cut.k_or_own(None) or MAX_ANSWERS, len(self.classes_))
            )
            likely = self.predictor_.probabilities(scores)
            return self._targets.answers(np.where(cut(slots, likely), slots, -1))
        count = 1 if self._targets.form == "classes" else self._labels_per_point()
        return self._targets.answers(self._best(X, count)[0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean precision at 1, in [0, 1]: with one class a point this is accuracy.

        A point without a label counts as a miss; `snm.evaluate` leaves such points out.

        Args:
          X: inputs [n, d].
          y: true targets.
          sample_weight: [n], or None for equal weights.
        """
        check_is_fitted(self, "predictor_")
        truth = self._targets.matrix(y, unknown="drop")  # never an answer, always a miss
        best, _ = self._best(X, 1)
        if len(best) != truth.shape[0]:
            raise InputError("y", f"{truth.shape[0]} targets", f"{len(best)}, one a point")
        hits = np.asarray(truth[np.arange(len(best)), best[:, 0]]).ravel()
        weights = _check_sample_weight(sample_weight, hits[:, None], dtype=np.float64)
        return float(np.average(hits, weights=weights))

    def export(self, folder: str | Path) -> None:
        """Writes the fitted model to a new folder, which stands for a run.

        `snm.load`, `snm predict` and `snm serve` take it, with inputs that are features as X is.
        Names of labels are the classes, but where y was an indicator.

        Raises:
          ValueError: the folder exists or cannot be written, or a class with a line break.
        """
        check_is_fitted(self, "predictor_")
        from snm.estimator.export import write_folder

        write_folder(self.predictor_, self.config_, self._targets, Path(folder))

    def _best(
        self, X: Any, k: int | None, labels: NDArray[np.int32] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        check_is_fitted(self, "predictor_")
        return self.predictor_.predict(self._rows(X), k, labels)

    def _rows(self, X: Any) -> csr_matrix:
        """Inputs [n, d], checked."""
        inputs = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        return canonical(inputs)

    def _check_answers(self) -> None:
        """Refuses parameters of `predict`, so that `fit` need not end first."""
        if self.threshold is not None:
            parse_threshold(self.threshold)
        self._checked_labels_per_point()

    def _labels_per_point(self) -> int:
        count = self._checked_labels_per_point()
        if count is None:
            count = max(1, round(self._mean_labels))
        return min(count, len(self.classes_))

    def _checked_labels_per_point(self) -> int | None:
        """The parameter as a number; None is as many as a training point has on average."""
        count = self.labels_per_point
        if count == "auto":
            return None
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InputError("labels_per_point", repr(count), "`auto`, or 1 or more")
        return int(count)
