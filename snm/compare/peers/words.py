"""fastText, which reads points as texts."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snm.compare.peers.protocol import Answers, Rows, timed
from snm.data.csr import row_starts

__all__ = ["are_counts", "as_words", "fasttext"]

_MAX_REPEATS = 10  # of a word in a text
_LARGEST_COUNT = 1000  # larger integers are years, prices or ids, not word counts


def fasttext(
    train_features: csr_matrix,
    train_labels: csr_matrix,
    test_features: csr_matrix,
    *,
    k: int,
    seed: int,
    threads: int,
) -> Answers:
    """FastText supervised, on feature ids as words; the arguments of `TrainAndPredict`."""
    package: Any = importlib.import_module("fasttext")
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
            return package.train_supervised(str(path), **settings, verbose=0)

        def predict(model: Any) -> Rows:
            for row in model.predict(lines, k=k)[0]:
                yield [int(name.removeprefix(prefix)) for name in row]

        return timed(train, predict, test_features.shape[0], k)


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
    ends = row_starts(times)[features.indptr]
    for first, last in pairwise(ends.tolist()):
        yield " ".join(map(str, ids[first:last].tolist()))
