"""Trains PECOS XR-Linear and predicts, in an interpreter that has libpecos and not snm.

    VENV/bin/python -I pecos_script.py FOLDER K MODELS SEED THREADS

FOLDER has float32 CSR matrices, saved by SciPy: `train.npz` [n, d], `labels.npz` [n, K] of ones,
`test.npz` [m, d]. The script adds `answers.npz`: `labels`, int64 [m, K], best first, padded with
-1; `seconds` of training; `predict_seconds`. It ends when its standard input does.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import load_npz

__all__ = ["main"]

_ANSWERS = 100  # of each model of several, so that few labels lack the score of one of them


def main() -> None:
    """Runs the script."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    folder = Path(sys.argv[1])
    k, models, seed, threads = map(int, sys.argv[2:])
    x, y, x_test = (load_npz(folder / f"{name}.npz") for name in ("train", "labels", "test"))
    xmc: Any = importlib.import_module("pecos.xmc")
    linear: Any = importlib.import_module("pecos.xmc.xlinear.model").XLinearModel
    begun = time.perf_counter()
    embeddings = xmc.LabelEmbeddingFactory.create(y, x, method="pifa", threads=threads)
    trained = []
    for number in range(models):
        tree = xmc.Indexer.gen(
            embeddings, indexer_type="hierarchicalkmeans", seed=seed + number, threads=threads
        )
        trained.append(linear.train(x, y, C=tree, threads=threads))
    seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    wanted = k if models == 1 else max(k, _ANSWERS)
    scores = sum(model.predict(x_test, only_topk=wanted, threads=threads) for model in trained)
    labels = np.full((x_test.shape[0], k), -1, np.int64)
    for row in range(len(labels)):
        first, last = scores.indptr[row : row + 2]
        best = np.argsort(-scores.data[first:last], kind="stable")[:k]
        labels[row, : len(best)] = scores.indices[first:last][best]
    predict_seconds = time.perf_counter() - begun
    np.savez(folder / "answers.npz", labels=labels, seconds=seconds,
             predict_seconds=predict_seconds)  # fmt: skip


def _end_with_parent() -> None:
    # Not through `sys.stdin`: a thread that waits there would abort the exit of the process.
    while os.read(0, 4096):
        pass
    os._exit(3)


if __name__ == "__main__":
    main()
