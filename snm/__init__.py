"""Extreme classification in JAX with Stochastic Negative Mining.

`import snm` changes two environment variables, which JAX reads at the first use of a device: it
adds a flag to `XLA_FLAGS` with which loops over rows are quicker on a CPU, and sets `NPROC` in a
container that has time for fewer cores than its machine has. It does no more: the names below, the
public interface, are imported when they are first used.

Example:
  >>> import snm
  >>> config = snm.preset("default")
  >>> config.loss, config.mined
  ('softmax', 'auto')
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from snm.machine.xla_flags import set_flags

if TYPE_CHECKING:
    from snm.config.settings import Config, preset, read_config
    from snm.data.dataset import Dataset, Points
    from snm.data.generated.synthetic import generate
    from snm.errors import InputError, StoppedError
    from snm.estimator.classifier import SNMClassifier
    from snm.export.load import load
    from snm.head.head import update_head
    from snm.head.spec import HeadSpec
    from snm.head.state import Head, HeadBatch, HeadStep, init_head
    from snm.head.top_labels import top_labels
    from snm.importing.logs.interactions import import_interactions
    from snm.losses.sampled import HeadLoss, LossOptions
    from snm.prediction.predictor import Predictor
    from snm.runs.events import (
        Evaluated,
        Finished,
        NonFiniteError,
        Noted,
        Probed,
        Saved,
        Skipped,
        Started,
        Stepped,
    )
    from snm.sampling.sample import Sample
    from snm.sampling.uniform import uniform_host
    from snm.tables.table import SparseRows, normalize
    from snm.trainer.evaluate_run import evaluate
    from snm.trainer.training import train, training

__version__ = "0.1.0"

set_flags()

_HOMES = {
    "Config": "config.settings",
    "preset": "config.settings",
    "read_config": "config.settings",
    "Dataset": "data.dataset",
    "Points": "data.dataset",
    "generate": "data.generated.synthetic",
    "import_interactions": "importing.logs.interactions",
    "InputError": "errors",
    "StoppedError": "errors",
    "Head": "head.state",
    "HeadBatch": "head.state",
    "HeadSpec": "head.spec",
    "HeadStep": "head.state",
    "init_head": "head.state",
    "top_labels": "head.top_labels",
    "HeadLoss": "losses.sampled",
    "LossOptions": "losses.sampled",
    "Sample": "sampling.sample",
    "uniform_host": "sampling.uniform",
    "SparseRows": "tables.table",
    "update_head": "head.head",
    "Predictor": "prediction.predictor",
    "Started": "runs.events",
    "Stepped": "runs.events",
    "Evaluated": "runs.events",
    "Saved": "runs.events",
    "Probed": "runs.events",
    "Skipped": "runs.events",
    "Noted": "runs.events",
    "Finished": "runs.events",
    "NonFiniteError": "runs.events",
    "SNMClassifier": "estimator.classifier",
    "normalize": "tables.table",
    "load": "export.load",
    "evaluate": "trainer.evaluate_run",
    "train": "trainer.training",
    "training": "trainer.training",
}

__all__ = [
    "Config",
    "Dataset",
    "Evaluated",
    "Finished",
    "Head",
    "HeadBatch",
    "HeadLoss",
    "HeadSpec",
    "HeadStep",
    "InputError",
    "LossOptions",
    "NonFiniteError",
    "Noted",
    "Points",
    "Predictor",
    "Probed",
    "SNMClassifier",
    "Sample",
    "Saved",
    "Skipped",
    "SparseRows",
    "Started",
    "Stepped",
    "StoppedError",
    "evaluate",
    "generate",
    "import_interactions",
    "init_head",
    "load",
    "load_data",
    "normalize",
    "predict",
    "preset",
    "read_config",
    "top_labels",
    "train",
    "training",
    "uniform_host",
    "update_head",
]


def load_data(source: Any, **options: Any) -> Dataset:
    """Loads a data set from a folder, or `synthetic`; see `snm.data.load.load`."""
    from snm.data import load

    return load.load(source, **options)


def predict(run: Any, features: Any, k: int | None = None) -> Any:
    """The best labels of each point by a trained run: int32 [n, k] labels, float32 [n, k] scores.

    By default k is 5, or the number of labels where that is less.

    For many calls load the run once: `snm.load(run).predict(features, k)`.
    """
    from snm.export.load import load

    return load(run).predict(features, k)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'snm' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"snm.{_HOMES[name]}"), name)
    globals()[name] = value  # so that the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
