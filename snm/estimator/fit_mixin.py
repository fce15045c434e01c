"""The steps that `fit` and `partial_fit` share: points, settings, training, and the predictor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.utils.validation import validate_data

from snm.config.resolve import resolve
from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset, Points
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.estimator.inputs import canonical_csr, make_points, to_seed, warn_dominant_feature
from snm.estimator.parameters import (
    check_flags,
    make_config,
    with_constant_rate,
    with_memory,
    with_weighting,
)
from snm.estimator.targets import Targets
from snm.estimator.train_members import fit_members
from snm.memory.memory import Memory
from snm.model.from_config import make_model
from snm.model.inference import join_members
from snm.model.model import TrainState
from snm.prediction.calibration import UNCALIBRATED, Calibration
from snm.prediction.predictor import Predictor
from snm.trainer.phase import PhaseInputs

__all__ = ["FitMixin", "make_dataset"]


class FitMixin:
    """The steps of `SNMClassifier.fit` and `partial_fit`, and the attributes that they set.

    Pickles contain the names of the attributes.
    """

    # Parameters of `SNMClassifier`.
    preset: str
    memory: str | None
    learning_rate: float | None
    settings: dict[str, Any] | None
    threshold: float | str | None
    class_weight: Any
    early_stopping: bool
    random_state: Any
    verbose: bool
    get_params: Callable[..., dict[str, Any]]

    n_features_in_: int
    classes_: NDArray[Any]
    config_: ResolvedConfig
    loss_curve_: list[float]
    validation_scores_: list[list[float]]
    memory_: dict[str, Any] | None
    predictor_: Predictor
    _targets: Targets
    _fitted_weighting: Weighting
    _mean_labels: float
    _parts: int
    _in_parts: bool = False
    _states: list[TrainState]
    _memory: Memory | None
    _calibration: Calibration | None = None
    _temperature: float | None = None
    _shifts: np.ndarray | None = None

    def _reset(self) -> None:
        """Removes the results of an earlier fit, in case this one fails."""
        for name in ("_states", "predictor_", "loss_curve_", "validation_scores_", "config_"):
            self.__dict__.pop(name, None)

    def _points(self, X: csr_matrix, targets: Targets, y: Any, sample_weight: Any) -> Points:
        """The points with a weight above 0, with the weights of their classes.

        Args:
          X: from `_inputs`.
          targets: the classes.
          y: targets.
          sample_weight: [n], or None.

        Raises:
          ValueError: targets or weights that cannot be used.
        """
        points = make_points(X, targets.matrix(y), sample_weight)
        weights = targets.weights(self.class_weight, points.labels)
        return dataclasses.replace(points, label_weights=weights)

    def _initialize(self, points: Points, targets: Targets, *, in_parts: bool = False) -> None:
        """Resolves the settings and fits the weighting; there are no parameters yet.

        Args:
          points: the first points.
          targets: the classes.
          in_parts: whether more points may follow.

        Raises:
          InputError: fewer than two classes, or parameters that cannot be used.
        """
        if len(targets.classes) < 2:
            found = "1 class" if len(targets.classes) else "no point with a label"
            raise InputError("y", found, "at least 2 classes: there are no negatives")
        unresolved = self._config(points.num_points)
        memory_is_set = self.memory is not None or "memory" in (self.settings or {})
        threshold = self.threshold is not None and not memory_is_set and targets.form != "classes"
        unresolved = with_memory(
            unresolved, points.num_points, in_parts=in_parts, threshold=threshold
        )
        unresolved = with_weighting(unresolved, points.features, in_parts=in_parts)
        config = resolve(unresolved, make_dataset(points))
        if in_parts and self.learning_rate is None and "learning_rate" not in (self.settings or {}):
            config = with_constant_rate(config)
        self.memory_ = self._memory = self._shifts = None
        self._calibration = self._temperature = None
        self.config_ = config
        self.classes_ = targets.classes
        self._targets = targets
        self._fitted_weighting = Weighting.fit(config.weighting, points.features)
        warn_dominant_feature(config.weighting, points.features)
        counts = np.diff(points.labels.indptr)
        self._mean_labels = float(np.average(counts, weights=points.weights))
        self._parts, self._in_parts = 0, in_parts

    def _train(
        self,
        config: ResolvedConfig,
        dataset: Dataset,
        kept: NDArray[np.int64] | None = None,
        *,
        in_parts: bool = False,
    ) -> None:
        """Trains all members.

        Training continues from the parameters of an earlier call. It consumes copies of them, so
        that those of `_states` and `predictor_` are valid until it ends.

        Args:
          config: the settings.
          dataset: the data set with all points.
          kept: int64 [n], ascending, the points not held out for a memory; None is all.
          in_parts: whether more points may follow.

        Raises:
          InputError: as `fit_members`.
          NonFiniteError: a loss was not finite.
        """
        earlier: list[TrainState | None] = [None] * self.config_.members
        if hasattr(self, "_states"):
            earlier = [jax.tree.map(jnp.copy, state) for state in self._states]
        fitted = fit_members(
            PhaseInputs(config, dataset, self._fitted_weighting),
            earlier,
            kept=kept,
            in_parts=in_parts,
            shown=self.verbose,
        )
        self.loss_curve_ = fitted.losses
        self.validation_scores_ = fitted.scores
        self._states = fitted.states
        self.predictor_ = self._make_predictor(self._states)

    def _make_predictor(self, states: list[TrainState]) -> Predictor:
        """The predictor of members with these states, and of the memory if there is one."""
        sizes = self.n_features_in_, len(self.classes_)
        model = dataclasses.replace(make_model(self.config_, *sizes), members=len(states))
        reason = UNCALIBRATED
        if self._parts:
            reason = "an estimator after partial_fit, which fits no probabilities", "a call of fit"
        predictor = Predictor(
            model, join_members(states), self._fitted_weighting, why_uncalibrated=reason
        )
        return predictor.with_choice(self._memory, self._shifts, self._calibration)

    def _inputs(self, X: Any, y: Any, *, reset: bool) -> csr_matrix:
        """X as float32 CSR [n, d]; `reset` sets the width of the model.

        Raises:
          ValueError: no y, or inputs that cannot be used; the messages are scikit-learn's.
        """
        if y is None:
            raise ValueError(
                "This SNMClassifier estimator requires y to be passed, but the target y is None."
            )
        inputs = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=reset)
        return canonical_csr(inputs)

    def _config(self, num_points: int) -> Config:
        """The settings that the parameters describe, not yet resolved."""
        check_flags(self.early_stopping, self.verbose)
        seed = to_seed(self.random_state)
        params = self.get_params(deep=False)
        return make_config(self.preset, params, self.settings, num_points=num_points, seed=seed)


def make_dataset(points: Points) -> Dataset:
    """A data set of these points, without test points and names."""
    return Dataset("fit", points, sha256="fit")  # no run needs to know it again
