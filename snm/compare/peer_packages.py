"""Other packages for extreme classification, each behind one function signature."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from snm.data.formats.dispatch import write_text

__all__ = ["PEERS", "Answers", "Peer", "TrainAndPredict", "are_counts", "as_words"]

_MAX_REPEATS = 10  # of a word in a text
_LARGEST_COUNT = 1000  # larger integers are years, prices or ids, not word counts

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
      package: the name of the Python module.
      settings: its settings in one line.
      train_and_predict: trains it and predicts.
      weighted: whether it uses feature values. If not, it gets the raw, unweighted features.
    """

    package: str
    settings: str
    train_and_predict: TrainAndPredict
    weighted: bool = True


def _omikuji(
    train_features: csr_matrix,
    train_labels: csr_matrix,
    test_features: csr_matrix,
    *,
    k: int,
    seed: int,
    threads: int,
) -> Answers:
    del seed  # it takes none
    omikuji: Any = importlib.import_module("omikuji")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        nonempty = np.diff(train_features.indptr) > 0  # omikuji rejects points without features
        write_text(path, train_features[nonempty], train_labels[nonempty])

        def train() -> Any:
            settings = omikuji.Model.default_hyper_param()
            return omikuji.Model.train_on_data(str(path), settings, n_threads=threads)

        def predict(model: Any) -> Rows:
            model.init_prediction_thread_pool(threads)
            for pairs in _pairs(test_features):
                yield [label for label, _ in model.predict(pairs, top_k=k)]

        return _timed(train, predict, test_features.shape[0], k)


def _fasttext(
    train_features: csr_matrix,
    train_labels: csr_matrix,
    test_features: csr_matrix,
    *,
    k: int,
    seed: int,
    threads: int,
) -> Answers:
    fasttext: Any = importlib.import_module("fasttext")
    counted = are_counts(train_features) and are_counts(test_features)
    prefix = "__label__"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        with path.open("w", encoding="ascii") as out:
            ends = pairwise(train_labels.indptr.tolist())
            for (first, last), words in zip(ends, as_words(train_features, counted), strict=True):
                names = [f"{prefix}{label}" for label in train_labels.indices[first:last]]
                if names:
                    out.write(f"{' '.join(names)} {words}\n")
        lines = list(as_words(test_features, counted))

        def train() -> Any:
            settings = dict(loss="hs", dim=100, epoch=25, lr=0.5, seed=seed, thread=threads)
            return fasttext.train_supervised(str(path), **settings, verbose=0)

        def predict(model: Any) -> Rows:
            for row in model.predict(lines, k=k)[0]:
                yield [int(name.removeprefix(prefix)) for name in row]

        return _timed(train, predict, test_features.shape[0], k)


def _napkinxc(
    train_features: csr_matrix,
    train_labels: csr_matrix,
    test_features: csr_matrix,
    *,
    k: int,
    seed: int,
    threads: int,
) -> Answers:
    models: Any = importlib.import_module("napkinxc.models")
    with tempfile.TemporaryDirectory() as folder:

        def train() -> Any:
            model = models.PLT(str(Path(folder) / "model"), seed=seed, threads=threads)
            model.fit(train_features, train_labels)
            return model

        def predict(model: Any) -> Rows:
            return model.predict(test_features, top_k=k)

        return _timed(train, predict, test_features.shape[0], k)


PEERS: dict[str, Peer] = {
    "omikuji": Peer(
        "omikuji",
        "its defaults: 3 trees of balanced 2-means as Parabel, hinge loss, beam 10; takes no seed",
        _omikuji,
    ),
    "fasttext": Peer(
        "fasttext",
        "supervised, hierarchical softmax, dim 100, 25 epochs, rate 0.5; features are words "
        "without weights, counts repeat a word up to 10 times",
        _fasttext,
        weighted=False,
    ),
    "napkinxc": Peer(
        "napkinxc",
        "PLT, its defaults: 1 tree of balanced 2-means, logistic loss, C 10, exact search",
        _napkinxc,
    ),
}
"""Name -> package."""


def are_counts(features: csr_matrix) -> bool:
    """Whether all values are integers from 0 to 1000, and so can be word counts."""
    values = features.data
    return bool(np.all((values >= 0) & (values <= _LARGEST_COUNT) & (values == np.rint(values))))


def as_words(features: csr_matrix, counted: bool) -> Iterator[str]:
    """Writes rows as texts whose words are feature ids.

    Args:
      features: CSR [n, d].
      counted: whether to write a feature of value c min(c, 10) times. Otherwise every feature whose
        value is not 0 is written once.

    Example:
      >>> list(as_words(csr_matrix([[2, 0, 1], [0, 0, 40]]), counted=True))
      ['0 0 2', '2 2 2 2 2 2 2 2 2 2']
    """
    values = features.data
    times = np.clip(values, 0, _MAX_REPEATS) if counted else values != 0
    times = times.astype(np.int64)
    ids = np.repeat(features.indices, times)
    ends = np.concatenate([[0], np.cumsum(times)])[features.indptr]
    for first, last in pairwise(ends.tolist()):
        yield " ".join(map(str, ids[first:last].tolist()))


def _pairs(features: csr_matrix) -> Iterator[list[tuple[int, float]]]:
    """Yields each row as a list of (id, value) pairs."""
    for first, last in pairwise(features.indptr.tolist()):
        ids, values = features.indices[first:last], features.data[first:last]
        yield list(zip(ids.tolist(), values.tolist(), strict=True))


def _timed(train: Callable[[], Any], predict: Callable[[Any], Rows], rows: int, k: int) -> Answers:
    """Trains and predicts, and measures the seconds of both."""
    begun = time.perf_counter()
    model = train()
    seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    found = _padded(predict(model), rows, k)
    return found, seconds, time.perf_counter() - begun


def _padded(answers: Rows, rows: int, k: int) -> NDArray[np.int64]:
    """Predictions as int64 [rows, k], padded with -1."""
    found = np.full((rows, k), -1, np.int64)
    for row, answer in enumerate(answers):
        found[row, : min(len(answer), k)] = answer[:k]
    return found
