"""The peers in PyTorch: sparse tables, autodiff, sparse SGD; imported only if torch is there.

A `device` is `cpu` or `cuda`. There the arguments are on the device before a call, and a call
returns when the device has done its work. Factors of bfloat16 are PyTorch's automatic casts.
"""

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

__all__ = ["TorchBag", "TorchStep", "best_of_all", "best_of_sample", "embedder"]


def _bag_arguments(block: Any, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The ids, offsets and weights of a block, without its padding."""
    ids, values, starts = (np.asarray(part) for part in block)
    total = int(starts[-1])
    return (
        torch.from_numpy(ids[:total].astype(np.int64)).to(device),
        torch.from_numpy(starts[:-1].astype(np.int64)).to(device),
        torch.from_numpy(values[:total].copy()).to(device),
    )


def _casts(compute_dtype: str, device: str) -> Any:
    """Within it, factors of products have a type."""
    return torch.autocast(device, dtype=torch.bfloat16, enabled=compute_dtype == "bfloat16")


def _done(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


class TorchBag:
    """`EmbeddingBag(mode="sum", sparse=True)` with weights, and SGD on its sparse gradient."""

    def __init__(self, shape: Shape, blocks: Sequence[Any], steps: np.ndarray, device: str):
        torch.manual_seed(SEED)
        self._device = device
        self._bag = nn.EmbeddingBag(
            shape.num_features, shape.dim, mode="sum", sparse=True, device=device
        )
        self._optimizer = torch.optim.SGD(self._bag.parameters(), lr=0.1)
        self._turn = itertools.cycle([_bag_arguments(block, device) for block in blocks])
        self._steps = torch.from_numpy(steps.copy()).to(device)

    def forward(self) -> None:
        """Computes sums of rows."""
        ids, offsets, weights = next(self._turn)
        with torch.no_grad():
            self._bag(ids, offsets, per_sample_weights=weights)
        _done(self._device)

    def forward_and_update(self) -> None:
        """Computes sums of rows, and takes a step on the rows."""
        ids, offsets, weights = next(self._turn)
        self._optimizer.zero_grad(set_to_none=True)
        self._bag(ids, offsets, per_sample_weights=weights).backward(self._steps)
        self._optimizer.step()
        _done(self._device)


def best_of_sample(
    queries: np.ndarray,
    table: np.ndarray,
    samples: Sequence[np.ndarray],
    device: str,
    compute_dtype: str = "float32",
) -> Callable[[int], Any]:
    """A function that scores the gathered rows of a sample and selects the top `count`."""
    asked, rows = (torch.from_numpy(x.copy()).to(device) for x in (queries, table))
    turn = itertools.cycle([torch.from_numpy(ids.astype(np.int64)).to(device) for ids in samples])

    def call(count: int) -> Any:
        with torch.no_grad(), _casts(compute_dtype, device):
            best = torch.topk(asked @ rows[next(turn)].T, count, dim=1)
        _done(device)
        return best

    return call


def best_of_all(queries: np.ndarray, table: np.ndarray, best: int, device: str) -> Any:
    """A function that scores all rows and selects the `best`."""
    asked, rows = (torch.from_numpy(x.copy()).to(device) for x in (queries, table))

    def call() -> Any:
        with torch.no_grad():
            found = torch.topk(asked @ rows.T, best, dim=1)
        _done(device)
        return found

    return call


class TorchStep:
    """One training step of the same model and loss, with autodiff and sparse SGD.

    Args:
      shape: the sizes.
      mined: k'.
      batches: the batches of our step.
      mine_first: whether to score without gradients and differentiate through mined rows only.
      like: a step whose parameters to share; None creates new ones.
      device: where they are.
      times: steps of a call.
    """

    def __init__(
        self,
        shape: Shape,
        mined: int,
        batches: Sequence[Any],
        *,
        mine_first: bool,
        like: TorchStep | None = None,
        device: str = "cpu",
        times: int = 1,
    ):
        torch.manual_seed(SEED)
        self._shape, self._device, self._times = shape, device, times
        if like is None:
            there = {"device": device}
            self.features = nn.EmbeddingBag(
                shape.num_features, shape.dim, mode="sum", sparse=True, **there
            )
            self.linear = nn.Linear(shape.dim, shape.dim, bias=False, **there)
            self.classes = nn.Embedding(shape.num_labels, shape.dim, sparse=True, **there)
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

    def _prepared(self, batch: Any) -> tuple[Any, ...]:
        positives = np.asarray(batch.terms.ids).astype(np.int64)
        sample = np.asarray(batch.sample.ids).astype(np.int64)
        place = np.minimum(np.searchsorted(sample, positives), len(sample) - 1)
        excluded = np.where(sample[place] == positives, place, int(batch.sample.drop))
        excluded = excluded.astype(np.int64)
        return (
            _bag_arguments(batch.features, self._device),
            *(torch.from_numpy(x).to(self._device) for x in (positives, sample, excluded)),
        )

    def __call__(self) -> float:
        """Takes the steps; returns the loss before the last one."""
        for _ in range(self._times):
            loss = self._step()
        return loss.item()

    def _step(self) -> torch.Tensor:
        with _casts(self._shape.compute_dtype, self._device):
            loss = self._loss()
        loss.backward()
        for optimizer in self._optimizers:
            optimizer.step()
        return loss

    def _loss(self) -> torch.Tensor:
        features, positives, sample, excluded = next(self._turn)
        for optimizer in self._optimizers:
            optimizer.zero_grad(set_to_none=True)
        ids, offsets, weights = features
        sums = self.features(ids, offsets, per_sample_weights=weights)
        queries = functional.normalize(self.linear(functional.relu(sums)))
        rows = torch.arange(len(positives), device=self._device)
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
        return losses.mean()


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
