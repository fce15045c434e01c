"""Sizes of real data sets, and synthetic data of those sizes.

Synthetic points have Poisson numbers of features and labels, drawn with probabilities proportional
to 1 / rank, which is close to real data. All random numbers come from one seed.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import numpy as np
from scipy.sparse import csr_matrix

from snm.batches.epoch_order import Order
from snm.batches.schedule import Rates, Schedule
from snm.batches.sources import build
from snm.batches.sources.source import Source
from snm.head.spec import HeadSpec
from snm.model.model import Model, TrainState
from snm.model.placement import init_state_on
from snm.tables.table import normalize

__all__ = [
    "SEED",
    "SHAPES",
    "Shape",
    "make_model",
    "make_points",
    "make_queries",
    "make_source",
    "make_state",
]

SEED = 0
_DRAWS = 4  # draws per wanted feature or label, because some repeat


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of a data set, and the paper's batch size and sample size for it.

    Attributes:
      name: the name of the data set.
      num_points: n, training points.
      num_features: d.
      num_labels: K.
      nonzeros: mean number of features per point.
      labels: mean number of labels per point.
      batch: points per step.
      sampled: B.
      mined: the values of k' to time, in addition to k' = B (negative sampling).
      loop_mined: the values of k' to time in the whole training loop.
      dim: dimension of class rows and queries.
      compute_dtype: type of the factors of matrix products.
    """

    name: str
    num_points: int
    num_features: int
    num_labels: int
    nonzeros: int
    labels: float
    batch: int
    sampled: int
    mined: tuple[int, ...]
    loop_mined: tuple[int, ...] = (16,)
    dim: int = 512
    compute_dtype: Literal["float32", "bfloat16"] = "float32"

    @property
    def samples_all(self) -> bool:
        """Whether all other labels are negatives, so that none are sampled."""
        return self.sampled == self.num_labels - 1

    def with_sampling(self, sampled: int | None, mined: tuple[int, ...]) -> Shape:
        """A copy with another B (None keeps it) and other k' (an empty tuple keeps them).

        B is at most K - 1, all other labels. Values of k' that are not below B are dropped.
        """
        size = self.sampled if sampled is None else min(sampled, self.num_labels - 1)

        def below(counts: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(count for count in counts if count < size)

        return dataclasses.replace(
            self,
            sampled=size,
            mined=below(mined or self.mined),
            loop_mined=below(mined or self.loop_mined),
        )


# Sizes and B are from Reddi et al. (2019), Table 1 and section 5; features and labels per point
# from the Extreme Classification Repository. EUR-Lex is not in the paper.
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("eurlex", 15_539, 5_000, 3_993, 236, 5.3, 256, 1024, (1, 16)),
        Shape("amazoncat", 1_186_239, 203_882, 13_330, 71, 5.0, 512, 1024, (1, 16)),
        Shape("wikilshtc", 1_778_351, 1_617_899, 325_056, 42, 3.2, 512, 32_768, (1, 16, 256)),
        Shape("amazon670k", 490_449, 135_909, 670_091, 75, 5.5, 512, 32_768, (1, 16, 256)),
        Shape("amazon3m", 1_717_899, 337_067, 2_812_281, 49, 36.0, 1024, 32_768, (1, 16, 256)),
    )
}


def make_points(shape: Shape, count: int) -> tuple[csr_matrix, csr_matrix]:
    """Synthetic points of a shape.

    Args:
      shape: the sizes.
      count: the number of points.

    Returns:
      float32 CSR [count, d] features of unit length, and CSR [count, K] labels.
    """
    rng = np.random.default_rng([SEED, count])
    features = _random_rows(rng, count, shape.num_features, shape.nonzeros)
    lengths = np.diff(features.indptr)
    features.data = np.repeat(1 / np.sqrt(np.maximum(lengths, 1)), lengths).astype(np.float32)
    return features, _random_rows(rng, count, shape.num_labels, shape.labels)


def _random_rows(rng: np.random.Generator, count: int, width: int, mean: float) -> csr_matrix:
    """Draws distinct columns for each row, with probabilities proportional to 1 / rank.

    The ranks of the columns are a random permutation. Columns are drawn with replacement and
    repeated ones are dropped, which is equal to drawing without replacement.
    """
    wanted = np.maximum(rng.poisson(mean, count), 1)
    column_of_rank = rng.permutation(width).astype(np.int64)
    reach = np.cumsum(1 / np.arange(1, width + 1))
    drawn = wanted * _DRAWS
    ranks = np.searchsorted(reach, rng.random(int(drawn.sum())) * reach[-1])
    row = np.repeat(np.arange(count), drawn)
    key = row * width + column_of_rank[np.minimum(ranks, width - 1)]
    _, first = np.unique(key, return_index=True)
    first.sort()  # in the order drawn
    row = row[first]
    starts = np.searchsorted(row, np.arange(count + 1))
    order = np.arange(len(row)) - starts[row]
    kept = first[order < wanted[row]]
    matrix = csr_matrix(
        (np.ones(len(kept), np.float32), (key[kept] // width, key[kept] % width)),
        shape=(count, width),
    )
    matrix.sort_indices()
    return matrix


def make_model(shape: Shape, mined: int) -> Model:
    """The model of the paper: ReLU encoder, BOWL with the hinge, one positive per point, SGD."""
    head = HeadSpec(
        num_labels=shape.num_labels,
        sampled=shape.sampled,
        mined=mined,
        compute_dtype=shape.compute_dtype,
    )
    return Model(
        spec=head,
        num_features=shape.num_features,
        dim=shape.dim,
        encoder="relu",
        feature_init=1.0,
        score_scale=1.0,
        tower_momentum=0.9,
    )


def make_state(shape: Shape) -> TrainState:
    """The initial parameters; their shapes do not depend on k'."""
    return init_state_on(make_model(shape, 16), seed=SEED)


def make_queries(shape: Shape, count: int) -> jax.Array:
    """Random queries of unit length, float32 [count, dim]."""
    return normalize(jax.random.normal(jax.random.key(SEED + 2), (count, shape.dim)))


def make_source(shape: Shape, mined: int, points: int, *, resident: bool = False) -> Source:
    """The data loader over `points` synthetic points, as in training."""
    features, labels = make_points(shape, points)
    source = build.make_source(
        make_model(shape, mined).spec,
        features,
        labels,
        Order.of(points, shape.batch, SEED),
        resident=resident,
    )
    rates = Rates(rows=1.0, tower=0.01, scale=0.0)
    return dataclasses.replace(source, schedule=Schedule(rates=rates))
