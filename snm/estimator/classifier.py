"""Training as a scikit-learn estimator; needs the extra `sklearn`."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from snm.errors import InputError
from snm.text import pip_install

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
except ImportError as error:
    raise ImportError(
        f"SNMClassifier needs scikit-learn: {pip_install('sklearn')}", name="sklearn"
    ) from error

from snm.estimator.extended_memory import extend_memory
from snm.estimator.fit_mixin import FitMixin, make_dataset
from snm.estimator.parameters import for_one_pass, with_early_stopping
from snm.estimator.predict_mixin import PredictMixin
from snm.estimator.targets import Targets
from snm.estimator.temperature import held_out_temperature
from snm.runs.typed_json import as_json
from snm.trainer.memory.trial import choose_memory, split_for_memory

__all__ = ["SNMClassifier"]


class SNMClassifier(PredictMixin, FitMixin, ClassifierMixin, BaseEstimator):
    """Linear or two-layer classifier over many labels, trained with Stochastic Negative Mining.

    (Reddi, Kale, Yu, Holtmann-Rice, Chen and Kumar, AISTATS 2019.) X is a NumPy array or a SciPy
    sparse matrix [n, d]. y is one of: a class a point [n]; a list of labels a point; an indicator
    [n, K] of 0 and 1, dense or sparse, or as lists of one length from 2 on, or a data frame, whose
    columns name the classes. Predictions come in the form of y, and as an array for a data frame.
    Settings that are None are those of the preset, explained by `snm train --help`.

    Args:
      preset: `default`, `fast` or `paper`.
      weighting: of the features: `l2` divides rows by their length, which leaves the output of a
        TfidfVectorizer as it is; `standard` subtracts the means first; `tfidf` is for counts;
        `none`; `auto` is `standard` where more than 20% of the values are not 0, or 10% with a
        feature of far larger values, and `l2` otherwise and where a first `partial_fit` has fewer
        than 30 points.
      input_dropout: share of the features left out at each visit, in [0, 1), or `auto`.
      dim: dimension of embeddings and class rows.
      encoder: `relu`, `linear` or `residual`.
      score_scale: multiplier of the scores, or `auto`.
      bias: whether each label has a bias.
      loss: `softmax`, `bowl`, `powl` or a listwise one, as `snm train --loss`.
      phi: surrogate of bowl and powl.
      sampled: labels drawn a batch (B), `all` or `auto`.
      mined: how many of them enter the loss (k'), or `all`.
      exclude: `positive` or `all`: labels that are never negatives of a point.
      positives: `one` or `all` positives of a point at each visit.
      memory: `auto`, `on` or `off`: whether to add the labels of a point's nearest training points
        to its scores, where that raises precision on held-out points, on which the first member is
        not trained. `partial_fit` stores its points in the memory that `fit` chose; alone it makes
        none.
      members: models trained from other seeds, whose scores are added, `auto` or `few`.
      epochs: passes over the points, `auto` or `few`.
      batch_size: points a step; None is the preset's, or less where the points are few.
      learning_rate: of feature and class rows.
      schedule: `constant`, `linear` or `cosine`; in `partial_fit` the rate is constant.
      row_optimizer: `sgd` or `adagrad`.
      compute_dtype: `float32` or `bfloat16` factors of matrix products.
      settings: further fields of `snm.Config`, a mapping from name to value.
      labels_per_point: labels that `predict` gives a point of a multi-label problem; `auto` is
        the rounded mean of the training points, at least 1.
      threshold: instead of so many, `predict` gives a point of a multi-label problem the labels
        that are at least so likely: a probability, or `micro-f1`, `macro-f1` or `f1@k`, which `fit`
        chooses a threshold for. It considers the best 50, or k, of a point. Where `memory` is None,
        `fit` then tries one, since its held-out points also fit the probabilities. It
        needs 200 points.
      early_stopping: whether to hold points out, and to stop a member when its precision at 1 on
        them no longer rises; its best parameters are kept. Not in `partial_fit`.
      validation_fraction: share of the points that is held out then.
      n_iter_no_change: epochs without a better score after which to stop.
      class_weight: what the loss of a class is multiplied by, above 0: a mapping from class to
        weight, 1 where there is none; one weight for each of `classes_`; or `balanced`, which makes
        all classes weigh the same together (not in `partial_fit`). Metrics, probabilities and votes
        of a memory do not follow it.
      random_state: seed; an int gives the same bits again.
      verbose: whether to show a progress bar.

    Attributes:
      classes_: [K], what each column of scores stands for.
      n_features_in_: d.
      config_: the resolved settings.
      loss_curve_: mean loss of each dispatch of a few steps, in order, over all members; NaN where
        `on_nonfinite` of `settings` let all of them be skipped.
      validation_scores_: precision at 1 after each epoch, a list a member; empty lists without
        early stopping.
      memory_: what the trial of a memory found in `fit`: whether it is `used`, its `gain`, its
        `settings` and more, as `memory.json` of a run; None where none was tried.

    Example:
      >>> import numpy as np
      >>> from snm import SNMClassifier
      >>> X = np.repeat(np.eye(4), 8, axis=0)
      >>> y = np.repeat(["a", "b", "c", "d"], 8)
      >>> model = SNMClassifier(dim=8, members=1, epochs=20).fit(X, y)
      >>> model.predict(np.eye(4)).tolist()
      ['a', 'b', 'c', 'd']
    """

    def __init__(
        self,
        *,
        preset: str = "default",
        weighting: str = "auto",
        input_dropout: float | str | None = None,
        dim: int | str | None = None,
        encoder: str | None = None,
        score_scale: float | str | None = None,
        bias: bool | None = None,
        loss: str | None = None,
        phi: str | None = None,
        sampled: int | str | None = None,
        mined: int | str | None = None,
        exclude: str | None = None,
        positives: str | None = None,
        memory: str | None = None,
        members: int | str | None = None,
        epochs: int | str | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        schedule: str | None = None,
        row_optimizer: str | None = None,
        compute_dtype: str | None = None,
        settings: dict[str, Any] | None = None,
        labels_per_point: int | str = "auto",
        threshold: float | str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 3,
        class_weight: Any = None,
        random_state: Any = 0,
        verbose: bool = False,
    ):
        self.preset = preset
        self.weighting = weighting
        self.input_dropout = input_dropout
        self.dim = dim
        self.encoder = encoder
        self.score_scale = score_scale
        self.bias = bias
        self.loss = loss
        self.phi = phi
        self.sampled = sampled
        self.mined = mined
        self.exclude = exclude
        self.positives = positives
        self.memory = memory
        self.members = members
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.row_optimizer = row_optimizer
        self.compute_dtype = compute_dtype
        self.settings = settings
        self.labels_per_point = labels_per_point
        self.threshold = threshold
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    # -- training ----------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SNMClassifier:
        """Trains anew.

        Args:
          X: inputs [n, d], dense or sparse.
          y: targets, see the class.
          sample_weight: [n], at least 0: the loss of a point is multiplied by it, over the mean of
            those above 0. A point of weight 0 is left out. Votes of a memory and probabilities
            follow the weights; early stopping counts points alike.

        Raises:
          ValueError: inputs, targets, weights or settings that cannot be used.
          NonFiniteError: a loss was not finite.
        """
        self._reset()
        features = self._inputs(X, y, reset=True)
        targets = Targets.of(y)
        points = self._points(features, targets, y, sample_weight)
        self._check_predict_params()
        self._initialize(points, targets)
        dataset, config = make_dataset(points), self.config_
        if self.early_stopping:
            config = with_early_stopping(config, self.validation_fraction, self.n_iter_no_change)
        # The points that early stopping watches choose the memory, too.
        split = split_for_memory(config, dataset)
        self._train(config, dataset, None if split is None else split.kept)
        if split is not None:
            first = self._make_predictor(self._states[:1])
            chosen = choose_memory(config, dataset, split, first, self.predictor_)
            self.memory_, self._calibration = as_json(chosen.record), chosen.record.calibration
            self._memory, self._shifts = chosen.memory, chosen.shifts
            if targets.form == "classes" and first.model.spec.head_loss.takes_exponentials:
                self._temperature = held_out_temperature(config, dataset, split, first, chosen)
            self.predictor_ = self._make_predictor(self._states)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> SNMClassifier:
        """One more pass, over these points, at a constant rate.

        After `fit` the rate is the mean rate of the last epoch of its schedule, also if early
        stopping ended it before. Without a `fit` it is `learning_rate`, or if that is None, lower
        than the default, which is the start of a schedule (`config_` has it). In a call with fewer
        points than a batch the rate is multiplied by their share of a batch.

        The first call (if nothing was fitted before) fits the feature weighting and sets up the
        model; parameters that `set_params` changes afterwards take effect in the next `fit`, except
        `threshold`, `labels_per_point` and `class_weight`, which take effect at once. A memory,
        where one is used, stores these points, and all of its points are embedded anew. A call that
        fails, or that Ctrl-C interrupts, leaves the estimator as it was before; for this, the call
        holds the parameters twice.

        Args:
          X: inputs [n, d], dense or sparse.
          y: targets, see the class.
          classes: all classes; needed in the first call, unless y is an indicator.
          sample_weight: [n], as in `fit`, but not divided by their mean: parts differ in it.

        Raises:
          ValueError: inputs, targets or weights that cannot be used.
          NonFiniteError: a loss was not finite.
        """
        before = dict(self.__dict__)
        try:
            self._continue(X, y, classes, sample_weight)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _continue(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        """`partial_fit`; may leave attributes half changed if it fails."""
        if self.early_stopping:
            found = f"{self.early_stopping!r:.40} in partial_fit"
            expected = "False: who calls it decides when to stop"
            raise InputError("early_stopping", found, expected)
        if isinstance(self.class_weight, str):
            found, expected = repr(self.class_weight), "weights: only fit knows all points"
            raise InputError("class_weight in partial_fit", found, expected)
        first = not hasattr(self, "config_")
        if not first and not hasattr(self, "_states"):
            raise InputError("partial_fit", "parameters, for the last fit failed", "another fit")
        features = self._inputs(X, y, reset=first)
        if first:
            targets = Targets.of(y, classes)
            if targets.form in ("classes", "lists") and classes is None:
                raise InputError("classes", "None", "all classes in the first call of partial_fit")
        else:
            targets = self._targets
            if classes is not None and not np.array_equal(
                np.unique(classes), np.unique(self.classes_)
            ):
                raise InputError("classes", "others than before", "those of the first call")
        points = self._points(features, targets, y, sample_weight)
        if first and not points.labels.nnz:
            expected = "a point with one: a model has parameters from then on"
            raise InputError("y", "no label in the first call of partial_fit", expected)
        # The mean weight would differ between parts.
        points = dataclasses.replace(points, mean_weight=1.0)
        if first:
            self._check_predict_params()
            self._initialize(points, targets, in_parts=True)
        self._parts += 1
        if points.labels.nnz:
            self._calibration = None  # it belongs to the model before this pass
            config = for_one_pass(
                self.config_,
                len(points.labelled()),
                part=self._parts,
                after_fit=not self._in_parts,
            )
            self._train(config, make_dataset(points), in_parts=True)
            if self._memory is not None:
                self._memory = extend_memory(self._memory, points, self.predictor_)
                self.predictor_ = self._make_predictor(self._states)

    # -- protocol of scikit-learn -------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.weighting == "tfidf"
        tags.target_tags.required = True
        tags.classifier_tags.multi_label = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("predictor_", None)  # has compiled functions; rebuilt from the parameters
        if "_states" in state:
            state["_states"] = jax.tree.map(np.asarray, state["_states"])
        if state.get("_memory") is not None:
            state["_memory"] = dataclasses.replace(state["_memory"])  # without its caches
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_states" in self.__dict__:
            self._states = jax.tree.map(jax.numpy.asarray, self._states)
            self.predictor_ = self._make_predictor(self._states)
