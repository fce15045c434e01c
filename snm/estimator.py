"""The trainer as a scikit-learn estimator; needs the extra `sklearn`."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "SNMClassifier needs scikit-learn: pip install 'snm[sklearn]'", name="sklearn"
    ) from error

from snm.config import PRESETS, Config, preset
from snm.data.dataset import Dataset, Points
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.fitting import MemberFit
from snm.model import Model, join
from snm.phases import member_seed
from snm.prediction import Predictor
from snm.runs import make_model, resolve
from snm.targets import Targets

__all__ = ["SNMClassifier"]

# Parameters that are settings of the same name; None leaves the preset's.
_SETTINGS = (
    "weighting", "input_dropout", "dim", "encoder", "score_scale", "bias", "loss", "phi",
    "sampled", "mined", "exclude", "positives", "members", "epochs", "batch_size",
    "learning_rate", "schedule", "row_optimizer", "compute_dtype",
)  # fmt: skip
# What a run folder has and a fit in memory has not.
_OF_RUNS = {
    "preset", "seed", "validation_fraction", "evaluate_every", "patience", "monitor", "refit",
    "propensity_a", "propensity_b", "checkpoint_every", "keep_checkpoints",
}  # fmt: skip
_SMALLEST_BATCH, _STEPS_AN_EPOCH = 16, 16
_NEXT_PART = 7_368_787  # from the seed of one `partial_fit` to the next


class SNMClassifier(ClassifierMixin, BaseEstimator):
    """Linear or two-layer classifier over many labels, trained with Stochastic Negative Mining.

    (Reddi, Kale, Yu, Holtmann-Rice, Chen and Kumar, AISTATS 2019.) X is a NumPy array or a SciPy
    sparse matrix [n, d]. y is one of: a class a point [n]; a list of labels a point; an indicator
    [n, K], dense or sparse. Predictions come in the form of y. Settings that are None are those
    of the preset; they are explained by `snm train --help`.

    Args:
      preset: `default` or `paper`.
      weighting: of the features: `l2` divides rows by their length, which leaves the output of a
        TfidfVectorizer as it is; `tfidf` is for counts; `none`.
      input_dropout: share of the features left out at each visit, in [0, 1).
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
      members: models trained one after the other, whose scores are added, or `auto`.
      epochs: passes over the points, or `auto`.
      batch_size: points a step; None is the preset's, or less where the points are few.
      learning_rate: of feature and class rows.
      schedule: `constant`, `linear` or `cosine`; `partial_fit` keeps the rate constant.
      row_optimizer: `sgd` or `adagrad`.
      compute_dtype: `float32` or `bfloat16` factors of matrix products.
      settings: further fields of `snm.Config`, a mapping from name to value.
      labels_per_point: labels that `predict` gives a point of a multi-label problem; `auto` is
        the rounded mean of the training points, at least 1.
      random_state: seed; an int gives the same bits again.
      verbose: whether to show a progress bar.

    Attributes:
      classes_: [K], what each column of scores stands for.
      n_features_in_: d.
      config_: the resolved settings.
      loss_curve_: mean loss of each dispatch of a few steps, in order, over all members.

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
        weighting: str = "l2",
        input_dropout: float | None = None,
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
        members: int | str | None = None,
        epochs: int | str | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        schedule: str | None = None,
        row_optimizer: str | None = None,
        compute_dtype: str | None = None,
        settings: dict[str, Any] | None = None,
        labels_per_point: int | str = "auto",
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
        self.members = members
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.row_optimizer = row_optimizer
        self.compute_dtype = compute_dtype
        self.settings = settings
        self.labels_per_point = labels_per_point
        self.random_state = random_state
        self.verbose = verbose

    # -- training ----------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> SNMClassifier:
        """Trains anew.

        Args:
          X: inputs [n, d], dense or sparse.
          y: targets, see the class.

        Raises:
          ValueError: inputs, targets or settings that cannot be used.
          NonFiniteError: a loss was not finite.
        """
        features = self._inputs(X, y, reset=True)
        targets = Targets.of(y)
        labels = _matched(features, targets.matrix(y))
        self._begin(features, labels, targets)
        assert self.config_.epochs != "auto"  # resolved
        self._train(features, labels, self.config_.epochs, self.config_)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> SNMClassifier:
        """One more pass, over these points, at a constant rate.

        The first call (if nothing was fitted before) fits the feature weighting and sets up the
        model. A pass consumes the parameters: if it fails, the estimator must be fitted again.

        Args:
          X: inputs [n, d], dense or sparse.
          y: targets, see the class.
          classes: all classes; needed in the first call, unless y is an indicator.

        Raises:
          ValueError: inputs or targets that cannot be used.
          NonFiniteError: a loss was not finite.
        """
        first = not hasattr(self, "_states")
        features = self._inputs(X, y, reset=first)
        if first:
            targets = Targets.of(y, classes)
            if targets.form in ("classes", "lists") and classes is None:
                raise InputError("classes", "None", "all classes in the first call of partial_fit")
        else:
            targets = self._targets
            if classes is not None and not np.array_equal(np.sort(classes), self.classes_):
                raise InputError("classes", "others than before", "those of the first call")
        labels = _matched(features, targets.matrix(y))
        if first:
            self._begin(features, labels, targets)
        self._parts += 1
        seed = self.config_.seed + _NEXT_PART * self._parts
        config = dataclasses.replace(self.config_, schedule="constant", mined_start=0, seed=seed)
        if labels.nnz:
            self._train(features, labels, 1, config)
        return self

    def _begin(self, features: csr_matrix, labels: csr_matrix, targets: Targets) -> None:
        if len(targets.classes) < 2:
            found = f"{len(targets.classes)} class"
            raise InputError("y", found, "at least 2 classes: there are no negatives")
        config = resolve(
            self._config(features.shape[0]),
            Dataset("fit", Points(features, labels), None, None, ""),
        )
        # Nothing of an earlier fit is left where this one fails.
        for name in ("_states", "predictor_", "loss_curve_"):
            if hasattr(self, name):
                delattr(self, name)
        self.config_: Config = config
        self.classes_ = targets.classes
        self._targets = targets
        self._fitted_weighting = Weighting.fit(config.weighting, features)
        self._mean_labels = labels.nnz / features.shape[0]
        self._parts = 0

    def _train(self, features: csr_matrix, labels: csr_matrix, epochs: int, config: Config) -> None:
        weighted = self._fitted_weighting.apply(features)
        members = self._members()
        earlier: list[Any] = self.__dict__.pop("_states", [None] * members)
        self.__dict__.pop("predictor_", None)
        states: list[Any] = []
        losses: list[float] = []
        with _progress(self.verbose) as step:
            for member, state in enumerate(earlier, 1):
                mine = dataclasses.replace(config, seed=member_seed(config.seed, member))
                fit = MemberFit(mine, weighted, labels, state, epochs)
                for event in fit.run():
                    losses.append(event.loss)
                    step(f"member {member} of {members}", event.step, fit.num_steps, event.loss)
                states.append(fit.state)
        self.loss_curve_ = losses
        self._states = states
        self.predictor_ = self._joined()

    def _joined(self) -> Predictor:
        sizes = self.n_features_in_, len(self.classes_)
        model: Model = make_model(self.config_, *sizes, 1)
        model = dataclasses.replace(model, members=self._members())
        return Predictor(model, join(self._states), self._fitted_weighting)

    def _members(self) -> int:
        assert self.config_.members != "auto"  # resolved
        return self.config_.members

    def _inputs(self, X: Any, y: Any, *, reset: bool) -> csr_matrix:
        if y is None:
            raise ValueError(
                "This SNMClassifier estimator requires y to be passed, but the target y is None."
            )
        return _csr(validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=reset))

    def _config(self, num_points: int) -> Config:
        if self.preset not in PRESETS:
            raise InputError("preset", repr(self.preset), f"one of {', '.join(PRESETS)}")
        start = preset(self.preset)
        given = {name: getattr(self, name) for name in _SETTINGS}
        given = {name: value for name, value in given.items() if value is not None}
        if self.batch_size is None and num_points < start.batch_size * _STEPS_AN_EPOCH:
            # A step or two an epoch would be a handful of steps in all.
            given["batch_size"] = min(
                start.batch_size, max(_SMALLEST_BATCH, num_points // _STEPS_AN_EPOCH)
            )
        known = {field.name for field in dataclasses.fields(Config)} - _OF_RUNS
        for name, value in (self.settings or {}).items():
            if name in _OF_RUNS:
                raise InputError(
                    f"settings: {name}", "a setting of runs", "snm.train, or model selection"
                )
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
                raise InputError(f"settings: {name}", "an unknown key", f"for example {near}")
            if given.get(name, value) != value:
                raise InputError(f"settings: {name}", "another value than the parameter's", "one")
            given[name] = value
        return dataclasses.replace(start, **given, seed=_seed(self.random_state))

    # -- answers -----------------------------------------------------------------------------

    def decision_topk(self, X: Any, k: int = 5) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The k best labels of each point, exactly, ties to the lowest label.

        Args:
          X: inputs [n, d].
          k: how many labels, 1 to K.

        Returns:
          labels [n, k], entries of `classes_`, best first; their scores, float32 [n, k]: natural
          logarithms of unnormalised probabilities after a softmax loss, margins otherwise.

        Raises:
          ValueError: inputs of another width, a k that is not from 1 to K.
        """
        slots, scores = self._best(X, k)
        return self.classes_[slots], scores

    def predict(self, X: Any) -> Any:
        """The best class of each point [n], or its best `labels_per_point` labels, as y was."""
        check_is_fitted(self, "predictor_")
        count = 1 if self._targets.form == "classes" else self._labels_per_point()
        return self._targets.answers(self._best(X, count)[0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean precision at 1, in [0, 1]: with one class a point this is accuracy.

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

    def _best(self, X: Any, k: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        check_is_fitted(self, "predictor_")
        inputs = validate_data(self, X, accept_sparse="csr", dtype=np.float32, reset=False)
        return self.predictor_.predict(_csr(inputs), k)

    def _labels_per_point(self) -> int:
        count = self.labels_per_point
        if count == "auto":
            count = max(1, round(self._mean_labels))
        if not isinstance(count, int | np.integer) or count < 1:
            raise InputError("labels_per_point", repr(count), "`auto`, or 1 or more")
        return min(int(count), len(self.classes_))

    # -- what scikit-learn asks --------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.weighting == "tfidf"
        tags.target_tags.required = True
        tags.classifier_tags.multi_label = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("predictor_", None)  # compiled structures; made again from the parameters
        if "_states" in state:
            state["_states"] = jax.tree.map(np.asarray, state["_states"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_states" in self.__dict__:
            self._states = jax.tree.map(jax.numpy.asarray, self._states)
            self.predictor_ = self._joined()


def _csr(inputs: Any) -> csr_matrix:
    features = csr_matrix(inputs, dtype=np.float32)
    if not features.has_canonical_format:
        features = features.copy()
        features.sum_duplicates()
    return features


def _matched(features: csr_matrix, labels: csr_matrix) -> csr_matrix:
    if features.shape[0] != labels.shape[0]:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"{[features.shape[0], labels.shape[0]]}"
        )
    return labels


def _seed(random_state: Any) -> int:
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


@contextlib.contextmanager
def _progress(shown: bool) -> Iterator[Any]:
    """What is told each dispatch; draws a bar where that is wanted."""
    if not shown:
        yield lambda *_: None
        return
    from rich.progress import Progress

    with Progress() as bar:
        tasks: dict[str, Any] = {}

        def step(name: str, done: int, total: int, loss: float) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done, description=f"{name}  loss {loss:.4f}")

        yield step
