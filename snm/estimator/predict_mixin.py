"""The prediction methods of the estimator, and the export of a fitted one."""

from __future__ import annotations

from collections.abc import Callable
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
from snm.estimator.targets import Targets
from snm.prediction.predictor import Predictor
from snm.prediction.thresholds import DEFAULT_THRESHOLD_K, parse_threshold

__all__ = ["PredictMixin"]

_MAX_ENTRIES = 1 << 26  # of `predict_proba`: 0.5 GiB


class PredictMixin:
    """The prediction methods of `SNMClassifier`, which sets these attributes."""

    labels_per_point: int | str
    threshold: float | str | None
    classes_: NDArray[Any]
    predictor_: Predictor
    _targets: Targets
    config_: ResolvedConfig
    _mean_labels: float
    _temperature: float | None

    def decision_topk(
        self, X: Any, k: int | None = None, labels: Any = None, exclude: Any = None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The k best labels of each point, exactly, ties to the lowest label.

        Args:
          X: inputs [n, d].
          k: how many labels, 1 to K, or to the number that a point may have; None is 5, or as many
            as each point may have where these are fewer.
          labels: entries of `classes_` to choose from, for all points; or for each of the n points
            a list, tuple, set or array of them. None is all. The cost grows with their number, not
            with K.
          exclude: entries of `classes_` to leave out, in the same forms, also with `labels`.

        Returns:
          labels [n, k], entries of `classes_`, best first; their scores, float32 [n, k]: natural
          logarithms of unnormalized probabilities after a softmax loss, margins otherwise. The
          votes of a memory are included, if one is used.

        Raises:
          ValueError: inputs of another width, a k that is out of range, an unknown label, lists of
            labels for another number of points, a point that may have no label.
        """
        check_is_fitted(self, "predictor_")
        return self._answers(self.predictor_.predict, X, k, labels, exclude)

    def proba_topk(
        self, X: Any, k: int | None = None, labels: Any = None, exclude: Any = None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """`decision_topk` with probabilities instead of scores: that each label is right.

        `fit` fits them on the points that choose the memory. They need not sum to 1 for a point.
        `exclude` does not change those of the other labels.

        Raises:
          ValueError: as `decision_topk`; or `fit` tried no memory, or `partial_fit` came after.
        """
        check_is_fitted(self, "predictor_")
        self.predictor_.fitted_calibration()  # raises before the slow part
        return self._answers(self.predictor_.predict_proba, X, k, labels, exclude)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of every class, as scikit-learn's scorers need it: float64 [n, K].

        Columns are in the order of `classes_`. With one class a point, rows sum to 1: they are the
        softmax of the scores over the number of members and a temperature, which `fit` chooses for
        the lowest log loss on the points that choose the memory. If it tried no memory (`memory_`
        is None), or with over 167,772 classes, the temperature is 1, and most models are
        overconfident. `partial_fit` keeps it. With several labels a point, an entry is the
        probability that the point has the label, as `proba_topk` gives it.

        Its memory and time grow with n * K. For many classes use `proba_topk`.

        Raises:
          ValueError: inputs of another width, over 2**26 entries; with one class a point, a loss
            whose scores are no logarithms of probabilities, such as bowl; with several labels, as
            `proba_topk`.
        """
        check_is_fitted(self, "predictor_")
        multi_label = self._targets.form != "classes"
        if multi_label:
            self.predictor_.fitted_calibration("predict_proba")
        elif not self.predictor_.model.spec.head_loss.takes_exponentials:
            found = f"scores of the loss {self.config_.loss}, which are no logarithms"
            raise InputError("predict_proba", found, "loss='softmax', or proba_topk")
        count, num_labels = _num_samples(X), len(self.classes_)
        if count * num_labels > _MAX_ENTRIES:
            found = f"{count} points x {num_labels} classes"
            expected = f"at most {_MAX_ENTRIES} entries at once, or proba_topk"
            raise InputError("predict_proba", found, expected)
        divisor = self.config_.members * (self._temperature or 1.0)
        probabilities, first = np.empty((count, num_labels)), 0
        for columns, scores in self.predictor_.top(self._rows(X), num_labels):
            if multi_label:
                p = self.predictor_.probabilities(scores).astype(np.float64)
            else:
                p = softmax(scores.astype(np.float64) / divisor, axis=1)
            block = probabilities[first : first + len(p)]
            np.put_along_axis(block, columns.astype(np.int64), p, axis=1)
            first += len(p)
        return probabilities

    def predict(self, X: Any) -> Any:
        """The best class of each point [n], or its best `labels_per_point` labels, like y.

        With a `threshold`, a point of a multi-label problem gets the labels of at least this
        probability.

        Raises:
          ValueError: inputs of another width, an invalid threshold, or one that `fit` did not
            choose.
        """
        check_is_fitted(self, "predictor_")
        if self.threshold is not None and self._targets.form != "classes":
            k = self.predictor_.threshold(self.threshold).k or DEFAULT_THRESHOLD_K
            columns, _ = self.predictor_.predict_proba(
                self._rows(X), min(k, len(self.classes_)), threshold=self.threshold
            )
            return self._targets.decode(columns)
        count = 1 if self._targets.form == "classes" else self._labels_per_point()
        return self._targets.decode(self._best(X, count)[0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean precision at 1, in [0, 1]: with one class a point this is accuracy.

        A point without a label counts as a miss; `snm.evaluate` leaves such points out.

        Args:
          X: inputs [n, d].
          y: true targets.
          sample_weight: [n], or None for equal weights.
        """
        check_is_fitted(self, "predictor_")
        truth = self._targets.matrix(y, unknown="drop")  # an unknown class is always a miss
        best, _ = self._best(X, 1)
        if len(best) != truth.shape[0]:
            raise InputError("y", f"{truth.shape[0]} targets", f"{len(best)}, one a point")
        hits = np.asarray(truth[np.arange(len(best)), best[:, 0]]).ravel()
        weights = _check_sample_weight(sample_weight, hits[:, None], dtype=np.float64)
        return float(np.average(hits, weights=weights))

    def export(self, folder: str | Path) -> None:
        """Writes the fitted model to a new folder, which can be used in place of a run.

        `snm.load`, `snm predict` and `snm serve` take it, with features like X as inputs. The names
        of labels are the classes, unless y was an indicator whose columns have no names.

        Raises:
          ValueError: the folder exists or cannot be written, or a class has a line break.
        """
        check_is_fitted(self, "predictor_")
        from snm.estimator.export import write_folder

        write_folder(self.predictor_, self.config_, self._targets, Path(folder))

    def _answers(
        self,
        predict: Callable[..., tuple[NDArray, NDArray]],
        X: Any,
        k: Any,
        labels: Any,
        exclude: Any,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The classes [n, k] that a method of the predictor gives, and their scores.

        Args:
          predict: the method.
          X: inputs [n, d].
          k: as in `decision_topk`.
          labels: as in `decision_topk`.
          exclude: as in `decision_topk`.
        """
        rows = self._rows(X)
        lists = {
            where: self._targets.columns(given, rows.shape[0], where)
            for where, given in (("labels", labels), ("exclude", exclude))
            if given is not None
        }
        columns, scores = predict(rows, k, **lists)
        counts = (columns >= 0).sum(axis=1)  # no class stands for none
        if (fewest := int(counts.min(initial=columns.shape[1]))) < columns.shape[1]:
            row = int(np.argmin(counts))
            if not fewest:
                raise InputError("labels", f"none that row {row} may have", "at least one")
            if k is not None:
                raise InputError("k", str(k), f"1 to {fewest}, the number of labels of row {row}")
        return self.classes_[columns[:, :fewest]], scores[:, :fewest]

    def _best(self, X: Any, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        return self.predictor_.predict(self._rows(X), k)

    def _rows(self, X: Any) -> csr_matrix | NDArray[np.float32]:
        """Inputs [n, d], checked; the predictor converts them."""
        return validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)

    def _check_predict_params(self) -> None:
        """Checks the parameters of `predict`, so that `fit` raises before it trains."""
        if self.threshold is not None:
            parse_threshold(self.threshold)
        self._checked_labels_per_point()

    def _labels_per_point(self) -> int:
        count = self._checked_labels_per_point()
        if count is None:
            count = max(1, round(self._mean_labels))
        return min(count, len(self.classes_))

    def _checked_labels_per_point(self) -> int | None:
        """The parameter as a number; None means the mean of the training points."""
        count = self.labels_per_point
        if count == "auto":
            return None
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise InputError("labels_per_point", repr(count), "`auto`, or 1 or more")
        return int(count)
