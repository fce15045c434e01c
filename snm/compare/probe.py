"""Measures a model during training: scores, false negatives among the mined, gradient variance.

The probe uses a fixed set of training points, for which it samples negatives like a training step,
with its own seed. It reports the scores of positives, sampled and mined negatives; the fraction of
mined labels that are known positives of the point; the frequency of the mined labels; and the
variance of the gradient over samples.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_matrix

from snm.batches.csr_blocks import make_block
from snm.config.resolved import ResolvedConfig
from snm.data.dataset import Dataset, Points
from snm.evaluation.evaluate import evaluate_points
from snm.evaluation.metrics import frequency_groups
from snm.head.head import update_head
from snm.head.spec import HeadSpec
from snm.head.state import HeadBatch
from snm.model.from_config import head_spec
from snm.model.inference import embed
from snm.prediction.predictor import Predictor
from snm.sampling.samplers import SAMPLERS
from snm.sampling.uniform import uniform_host
from snm.tables.rounding import as_float
from snm.tables.table import SparseRows

__all__ = ["MARGIN_QUANTILES", "QUANTILES", "ModelProbe"]

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MARGIN_QUANTILES = tuple(np.linspace(0, 1, 41).round(3).tolist())

_SEED = 20_190_411  # of the probed points and samples; the same for every run
_MAX_SCORES = 1 << 22  # points times sampled labels; bounds memory
_MAX_POINTS, _MIN_POINTS = 512, 16
_CURVE_POINTS = 2000  # test points of the learning curves
_GRADIENT_DRAWS = 4


class ModelProbe:
    """Measures models of one data set.

    Args:
      dataset: the data set of the training run.
      config: the settings of the training run.
    """

    def __init__(self, dataset: Dataset, config: ResolvedConfig):
        num_labels = dataset.train.num_labels
        self._spec = head_spec(config, num_labels)
        rng = np.random.default_rng(_SEED)
        labelled = np.flatnonzero(np.diff(dataset.train.labels.indptr))
        # If training samples very many labels, the probe uses fewer.
        self._sampled = min(self._spec.sampled, num_labels - 1, _MAX_SCORES // _MIN_POINTS)
        count = int(np.clip(_MAX_SCORES // self._sampled, _MIN_POINTS, _MAX_POINTS))
        rows = np.sort(rng.permutation(labelled)[:count])
        self._points = dataset.train.take(rows)
        labels = self._points.labels
        first = labels.indptr[:-1]
        entry = first + (rng.random(len(rows)) * np.diff(labels.indptr)).astype(np.int64)
        self._positives = labels.indices[entry].astype(np.int32)
        # Labels that cannot be negatives if `exclude` is "all".
        self._excluded = csr_matrix(labels != 0)
        if config.seen == "drop":
            self._excluded = csr_matrix(self._excluded + (self._points.features != 0))
        self._deciles = frequency_groups(dataset.label_frequency())
        self._test: Points | None = None
        if dataset.test is not None:
            order = rng.permutation(dataset.test.num_points)[:_CURVE_POINTS]
            self._test = dataset.test.take(np.sort(order))
        self._uniform = SAMPLERS[config.sampler].uniform

    @np.errstate(over="ignore", invalid="ignore")  # of a model that diverges; its run says so
    def __call__(self, predictor: Predictor) -> dict[str, Any]:
        """Measures a model.

        Returns:
          `test`, metrics on test points (if there are any); `margin`; and, if labels are sampled
          uniformly, `negatives` and `gradient`.
        """
        results: dict[str, Any] = {}
        if self._test is not None:
            metrics = evaluate_points(predictor, self._test, None)["metrics"]
            results["test"] = {k: v for k, v in metrics.items() if k[:2] in ("R@", "P@")}
        features = predictor.weighting.apply(self._points.features)
        block = make_block(features, np.arange(self._points.num_points))
        queries = _embedded(predictor.model, predictor.state, block)
        scale = float(jnp.exp(predictor.state.head.log_scale))
        positive_scores = np.asarray(_scores(predictor, queries, self._positives[:, None]))[:, 0]
        results["margin"] = self._margins(predictor, positive_scores, scale)
        if self._uniform:
            results["negatives"] = self._negatives(predictor, queries, positive_scores, scale)
            results["gradient"] = self._gradient(predictor, queries)
        return results

    def _margins(
        self, predictor: Predictor, positive_scores: np.ndarray, scale: float
    ) -> dict[str, Any]:
        """Quantiles of the margin rho_h(x, y) = h_y - max of the other labels' scores.

        Reddi et al. (2019), section 4.1, with k = 1; not multiplied by the score scale.
        """
        labels, best = predictor.predict(self._points.features, 2)
        best_other = np.where(labels[:, 0] == self._positives, best[:, 1], best[:, 0])
        margins = (positive_scores - best_other) / scale
        return {
            "quantiles": np.quantile(margins, MARGIN_QUANTILES).round(6).tolist(),
            "share_not_positive": float(np.mean(margins <= 0)),
        }

    def _sample(self, draw: int, size: int) -> Any:
        return uniform_host(_SEED, draw, num_labels=self._spec.num_labels, size=size)

    def _negatives(
        self, predictor: Predictor, queries: jax.Array, positive_scores: np.ndarray, scale: float
    ) -> dict[str, Any]:
        """Score quantiles by kind of label, and shares and frequencies of the mined negatives."""
        ids = np.sort(np.asarray(self._sample(0, self._sampled).ids))
        scores = np.asarray(_scores(predictor, queries, ids)).astype(np.float64) / scale
        known = self._points.labels[:, ids].toarray() != 0
        excluded = ids == self._positives[:, None]
        if self._spec.excludes_known:
            excluded = self._excluded[:, ids].toarray()
        scores[excluded] = -np.inf
        allowed = ~excluded
        mined = min(self._spec.mined, len(ids))
        columns = np.argpartition(-scores, mined - 1, axis=1)[:, :mined]
        chosen = np.zeros_like(known)
        np.put_along_axis(chosen, columns, True, axis=1)
        chosen &= allowed
        num_chosen = max(int(chosen.sum()), 1)
        deciles = np.bincount(self._deciles[ids], weights=chosen.sum(axis=0), minlength=10)
        return {
            "positive": _quantiles(positive_scores / scale),
            "sampled": _quantiles(scores[allowed]),
            "mined": _quantiles(scores[chosen]),
            "false_share_sampled": float((known & allowed).sum() / max(int(allowed.sum()), 1)),
            "false_share_mined": float((known & chosen).sum() / num_chosen),
            "mined_by_decile": (deciles / num_chosen).round(6).tolist(),
        }

    def _gradient(self, predictor: Predictor, queries: jax.Array) -> dict[str, float]:
        """Norm and standard deviation, over samples, of the gradient in the point embeddings."""
        n, spec = self._points.num_points, self._spec
        terms = SparseRows(
            jnp.asarray(self._positives),
            jnp.full(n, 1 / n, jnp.float32),
            jnp.arange(n + 1, dtype=jnp.int32),
        )
        known = SparseRows(
            jnp.asarray(self._excluded.indices, jnp.int32),
            jnp.ones(self._excluded.nnz, jnp.float32),
            jnp.asarray(self._excluded.indptr, jnp.int32),
        )
        draws = 1 if spec.samples_all else _GRADIENT_DRAWS
        results = []
        for draw in range(draws):
            sample = None if spec.samples_all else self._sample(draw, spec.num_slots)
            batch = HeadBatch(terms, sample, known if spec.excludes_known else None)
            key = jax.random.key(draw)
            gradient = _query_gradient(spec, predictor.state.head, queries, batch, key)
            results.append(np.asarray(gradient, np.float64))
        mean = np.mean(results, axis=0)
        # An unbiased estimate; 0 if all labels are sampled, since there is only one sample.
        variance = sum(float(np.sum((g - mean) ** 2)) for g in results) / max(draws - 1, 1)
        return {"norm": float(np.linalg.norm(mean)), "deviation": float(np.sqrt(variance))}


def _quantiles(values: np.ndarray) -> list[float]:
    return np.quantile(values, QUANTILES).round(6).tolist() if values.size else []


_embedded = jax.jit(embed, static_argnums=0)


def _scores(predictor: Predictor, queries: jax.Array, labels: np.ndarray) -> jax.Array:
    """Scores of labels int [B] for all queries, or of labels int [n, k], k for each query."""
    head = predictor.state.head
    rows, queries = as_float(head.table.rows[labels]), queries * jnp.exp(head.log_scale)
    scores = queries @ rows.T if labels.ndim == 1 else jnp.einsum("nd,nkd->nk", queries, rows)
    return scores if head.bias is None else scores + jnp.atleast_2d(head.bias[labels])


@functools.partial(jax.jit, static_argnums=0)
def _query_gradient(
    spec: HeadSpec, head: Any, queries: Any, batch: HeadBatch, key: Any
) -> jax.Array:
    """The gradient in the queries from a training step with learning rate 0."""
    _, step = update_head(
        dataclasses.replace(spec, positives="one"),
        head,
        queries,
        batch,
        learning_rate=0.0,
        key=key,
    )
    return step.query_gradient
