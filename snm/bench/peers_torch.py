"""The peers in PyTorch: sparse tables, autodiff, sparse SGD; imported only if torch is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import nn
from torch.nn import functional

from snm.bench.shapes import SEED, Shape
from snm.prediction.predictor import Predictor

__all__ = ["TorchBag", "TorchStep", "best_of_sample", "embedder"]


def _bag_arguments(block: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The ids, offsets and weights of a block, without its padding."""
    ids, values, starts = (np.asarray(part) for part in block)
    total = int(starts[-1])
    return (
        torch.from_numpy(ids[:total].astype(np.int64)),
        torch.from_numpy(starts[:-1].astype(np.int64)),
        torch.from_numpy(values[:total].copy()),
    )


class TorchBag:
    """`EmbeddingBag(mode="sum", sparse=True)` with weights, and SGD on its sparse gradient."""

    def __init__(self, shape: Shape, blocks: Sequence[Any], steps: np.ndarray):
        torch.manual_seed(SEED)
        self._bag = nn.EmbeddingBag(shape.num_features, shape.dim, mode="sum", sparse=True)
        self._optimizer = torch.optim.SGD(self._bag.parameters(), lr=0.1)
        self._turn = itertools.cycle([_bag_arguments(block) for block in blocks])
        self._steps = torch.from_numpy(steps.copy())

    def forward(self) -> None:
        """Computes sums of rows."""
        ids, offsets, weights = next(self._turn)
        with torch.no_grad():
            self._bag(ids, offsets, per_sample_weights=weights)

    def forward_and_update(self) -> None:
        """Computes sums of rows, and takes a step on the rows."""
        ids, offsets, weights = next(self._turn)
        self._optimizer.zero_grad(set_to_none=True)
        self._bag(ids, offsets, per_sample_weights=weights).backward(self._steps)
        self._optimizer.step()


def best_of_sample(
    queries: np.ndarray, table: np.ndarray, samples: Sequence[np.ndarray]
) -> Callable[[int], Any]:
    """A function that scores the gathered rows of a sample and selects the top `count`."""
    asked, rows = torch.from_numpy(queries.copy()), torch.from_numpy(table.copy())
    turn = itertools.cycle([torch.from_numpy(ids.astype(np.int64)) for ids in samples])

    def call(count: int) -> Any:
        with torch.no_grad():
            return torch.topk(asked @ rows[next(turn)].T, count, dim=1)

    return call


class TorchStep:
    """One training step of the same model and loss, with autodiff and sparse SGD.

    Args:
      shape: the sizes.
      mined: k'.
      batches: the batches of our step.
      mine_first: whether to score without gradients and differentiate through mined rows only.
      like: a step whose parameters to share; None creates new ones.
    """

    def __init__(
        self,
        shape: Shape,
        mined: int,
        batches: Sequence[Any],
        *,
        mine_first: bool,
        like: TorchStep | None = None,
    ):
        torch.manual_seed(SEED)
        if like is None:
            self.features = nn.EmbeddingBag(shape.num_features, shape.dim, mode="sum", sparse=True)
            self.linear = nn.Linear(shape.dim, shape.dim, bias=False)
            self.classes = nn.Embedding(shape.num_labels, shape.dim, sparse=True)
            with torch.no_grad():
                for table in (self.features.weight, self.classes.weight):
                    table.div_(table.norm(dim=1, keepdim=True))  # in place, for tables of 6 GB
        else:
            self.features, self.linear, self.classes = like.features, like.linear, like.classes
        tables = [self.features.weight, self.classes.weight]
        self._optimizers = [
            torch.optim.SGD(tables, lr=1.0),
            torch.optim.SGD(self.linear.parameters(), lr=0.01, momentum=0.9),
        ]
        self._mined, self._mine_first = mined, mine_first
        self._turn = itertools.cycle([self._prepared(batch) for batch in batches])

    @staticmethod
    def _prepared(batch: Any) -> tuple[Any, ...]:
        positives = np.asarray(batch.terms.ids).astype(np.int64)
        sample = np.asarray(batch.sample.ids).astype(np.int64)
        place = np.minimum(np.searchsorted(sample, positives), len(sample) - 1)
        excluded = np.where(sample[place] == positives, place, int(batch.sample.drop))
        return (
            _bag_arguments(batch.features),
            *(torch.from_numpy(part) for part in (positives, sample, excluded.astype(np.int64))),
        )

    def __call__(self) -> float:
        """Takes a step; returns the loss before it."""
        features, positives, sample, excluded = next(self._turn)
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        ids, offsets, weights = features
        sums = self.features(ids, offsets, per_sample_weights=weights)
        queries = functional.normalize(self.linear(functional.relu(sums)))
        rows = torch.arange(len(positives))
        if self._mine_first:
            with torch.no_grad():
                scores = queries @ self.classes.weight[sample].T
                scores[rows, excluded] = -torch.inf
                best = sample[torch.topk(scores, self._mined, dim=1).indices]
            hardest = functional.normalize(self.classes(best), dim=-1)
            mined = torch.bmm(hardest, queries[:, :, None])[:, :, 0]
        else:
            scores = queries @ functional.normalize(self.classes(sample)).T
            mask = torch.zeros_like(scores)
            mask[rows, excluded] = -torch.inf
            mined = torch.topk(scores + mask, self._mined, dim=1).values
        positive = (queries * functional.normalize(self.classes(positives))).sum(dim=1)
        losses = functional.relu(1 - positive) + functional.relu(1 + mined).mean(dim=1)
        loss = losses.mean()
        loss.backward()
        for optimizer in self._optimizers:
            optimizer.step()
        return loss.item()


def embedder(shape: Shape, predictor: Predictor) -> Callable[[csr_matrix], np.ndarray]:
    """A function from weighted points to queries, with the parameters of the predictor."""
    state = jax.tree.map(np.asarray, predictor.state)
    features = nn.EmbeddingBag.from_pretrained(
        torch.from_numpy(state.features.rows.copy()), mode="sum"
    )
    kernel = torch.from_numpy(jax.tree.leaves(state.tower)[0].copy())

    def call(points: csr_matrix) -> np.ndarray:
        with torch.no_grad():
            sums = features(
                torch.from_numpy(points.indices.astype(np.int64)),
                torch.from_numpy(points.indptr[:-1].astype(np.int64)),
                per_sample_weights=torch.from_numpy(points.data),
            )
            return functional.normalize(functional.relu(sums) @ kernel).numpy()

    return call
