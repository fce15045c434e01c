"""What a peer is: one function that trains and predicts, and what such functions share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.compare.peers.interpreters import THIS_INTERPRETER, OtherInterpreter, ThisInterpreter

__all__ = ["Answers", "Peer", "Rows", "TrainAndPredict", "pairs", "timed"]

Answers = tuple[NDArray[np.int64], float, float]
"""Labels int64 [m, k], seconds of training, seconds of prediction."""
Rows = Iterable[Sequence[int]]


class TrainAndPredict(Protocol):
    """Trains a package and predicts the best labels of each test point."""

    def __call__(
        self,
        train_features: csr_matrix,
        train_labels: csr_matrix,
        test_features: csr_matrix,
        *,
        k: int,
        seed: int,
        threads: int,
    ) -> Answers:
        """Trains and predicts.

        Args:
          train_features: float32 CSR [n, d].
          train_labels: float32 CSR [n, K] of ones.
          test_features: float32 CSR [m, d].
          k: number of labels to predict for each point, at most K.
          seed: random seed, for packages that take one.
          threads: number of threads, at least 1.

        Returns:
          int64 [m, k] labels, best first, padded with -1; seconds of training; seconds of
          prediction.
        """


@dataclass(frozen=True)
class Peer:
    """A package to compare with.

    Attributes:
      package: the name that `interpreter` knows it by.
      settings: its settings in one line.
      train_and_predict: trains it and predicts.
      weighted: whether it uses feature values. If not, it gets the raw, unweighted features.
      interpreter: the one that has it.
    """

    package: str
    settings: str
    train_and_predict: TrainAndPredict
    weighted: bool = True
    interpreter: ThisInterpreter | OtherInterpreter = THIS_INTERPRETER

    def missing(self) -> tuple[str, str] | None:
        """What was found instead of the package, and how to install it; None if it is there."""
        return self.interpreter.missing(self.package)


def pairs(features: csr_matrix) -> Iterator[list[tuple[int, float]]]:
    """Yields each row as a list of (id, value) pairs."""
    for first, last in pairwise(features.indptr.tolist()):
        ids, values = features.indices[first:last], features.data[first:last]
        yield list(zip(ids.tolist(), values.tolist(), strict=True))


def timed(train: Callable[[], Any], predict: Callable[[Any], Rows], rows: int, k: int) -> Answers:
    """Trains and predicts, and measures the seconds of both."""
    start = time.perf_counter()
    model = train()
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    answers_array = _pad_answers(predict(model), rows, k)
    return answers_array, seconds, time.perf_counter() - start


def _pad_answers(answers: Rows, rows: int, k: int) -> NDArray[np.int64]:
    """Predictions as int64 [rows, k], padded with -1."""
    answers_array = np.full((rows, k), -1, np.int64)
    for row, answer in enumerate(answers):
        answers_array[row, : min(len(answer), k)] = answer[:k]
    return answers_array
