"""PECOS XR-Linear, in an interpreter of its own: libpecos needs NumPy 1."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, save_npz

from snm.compare.peers import pecos_script
from snm.compare.peers.interpreters import OtherInterpreter
from snm.compare.peers.protocol import Answers, TrainAndPredict

__all__ = ["PECOS", "xr_linear"]

PECOS = OtherInterpreter("SNM_PECOS_PYTHON")


def xr_linear(models: int) -> TrainAndPredict:
    """XR-Linear (Yu, Zhong, Zhang, Chang and Dhillon, 2022) with its default hyperparameters.

    Args:
      models: models of clusterings with different seeds, whose scores are added.
    """
    return functools.partial(_xr_linear, models=models)


def _xr_linear(
    train_features: csr_matrix,
    train_labels: csr_matrix,
    test_features: csr_matrix,
    *,
    models: int,
    k: int,
    seed: int,
    threads: int,
) -> Answers:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        given = {"train": train_features, "labels": train_labels, "test": test_features}
        for key, matrix in given.items():
            save_npz(folder / f"{key}.npz", matrix.astype(np.float32), compressed=False)
        numbers = [str(number) for number in (k, models, seed, threads)]
        PECOS.run(Path(pecos_script.__file__), [name, *numbers], folder / "errors")
        with np.load(folder / "answers.npz") as found:
            return found["labels"], float(found["seconds"]), float(found["predict_seconds"])
