"""Trees over the labels: omikuji (Parabel, Bonsai), napkinXC and LibMultiLabel."""

from __future__ import annotations

import functools
import importlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from snm.compare.peers.protocol import Answers, Rows, TrainAndPredict, pairs, timed
from snm.data.formats.repository_text.writer import write_text

__all__ = ["libmultilabel", "napkinxc", "omikuji"]

_AT_ONCE = 256  # points whose scores of all labels LibMultiLabel holds, as float64


def omikuji(**changes: Any) -> TrainAndPredict:
    """Omikuji with its default hyperparameters but for these."""
    return functools.partial(_omikuji, changes=changes)


def _omikuji(
    train_features: csr_matrix,
    train_labels: csr_matrix,
    test_features: csr_matrix,
    *,
    changes: dict[str, Any],
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
            for name, value in changes.items():
                setattr(settings, name, value)
            return omikuji.Model.train_on_data(str(path), settings, n_threads=threads)

        def predict(model: Any) -> Rows:
            model.init_prediction_thread_pool(threads)
            for row in pairs(test_features):
                yield [label for label, _ in model.predict(row, top_k=k)]

        return timed(train, predict, test_features.shape[0], k)


def napkinxc(
    train_features: csr_matrix,
    train_labels: csr_matrix,
    test_features: csr_matrix,
    *,
    k: int,
    seed: int,
    threads: int,
) -> Answers:
    """NapkinXC's probabilistic label tree with its defaults; the arguments of `TrainAndPredict`."""
    models: Any = importlib.import_module("napkinxc.models")
    with tempfile.TemporaryDirectory() as folder:

        def train() -> Any:
            model = models.PLT(str(Path(folder) / "model"), seed=seed, threads=threads)
            model.fit(train_features, train_labels)
            return model

        def predict(model: Any) -> Rows:
            return model.predict(test_features, top_k=k)

        return timed(train, predict, test_features.shape[0], k)


def libmultilabel(
    train_features: csr_matrix,
    train_labels: csr_matrix,
    test_features: csr_matrix,
    *,
    k: int,
    seed: int,
    threads: int,
) -> Answers:
    """LibMultiLabel's linear trees; the arguments of `TrainAndPredict`."""
    linear: Any = importlib.import_module("libmultilabel.linear")
    # Without a bias, which it does not have by default, it is 5 points behind at P@1 on delicious.
    options = f"-B 1 -m {threads}"

    def train() -> Any:
        y, x = train_labels.astype(np.float64), train_features.astype(np.float64)
        return linear.train_ensemble_tree(y, x, options, verbose=False, seed=seed)

    def predict(model: Any) -> Rows:
        for first in range(0, test_features.shape[0], _AT_ONCE):
            block = test_features[first : first + _AT_ONCE].astype(np.float64)
            scores = linear.predict_values(model, block)
            # Zero is what a label outside of the beam has.
            for row in scores:
                best = np.argsort(-row, kind="stable")[:k]
                yield best[row[best] > 0].tolist()

    return timed(train, predict, test_features.shape[0], k)
