"""Extreme classification in JAX with Stochastic Negative Mining.

The names below are the public interface; each is imported when it is first used, so that
`import snm` costs nothing and works before a device is set up. It adds a flag to `XLA_FLAGS` with
which loops over rows are quicker on a CPU, and sets `NPROC` in a container that has time for fewer
cores than its machine has; after the first use of a device neither has an effect.

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
    from snm.data.synthetic import generate
    from snm.errors import InputError
    from snm.estimator.classifier import SNMClassifier
    from snm.export.load import load
    from snm.head.head import update_head
    from snm.head.spec import HeadSpec
    from snm.head.state import Head, init_head
    from snm.losses.sampled import LossOptions
    from snm.prediction.predictor import Predictor
    from snm.tables.table import normalize
    from snm.trainer.evaluate import evaluate
    from snm.trainer.training import train, training

__version__ = "0.1.0"

set_flags()

_HOMES = {
    "Config": "config.settings",
    "preset": "config.settings",
    "read_config": "config.settings",
    "Dataset": "data.dataset",
    "Points": "data.dataset",
    "generate": "data.synthetic",
    "InputError": "errors",
    "Head": "head.state",
    "HeadSpec": "head.spec",
    "init_head": "head.state",
    "LossOptions": "losses.sampled",
    "update_head": "head.head",
    "Predictor": "prediction.predictor",
    "SNMClassifier": "estimator.classifier",
    "normalize": "tables.table",
    "load": "export.load",
    "evaluate": "trainer.evaluate",
    "train": "trainer.training",
    "training": "trainer.training",
}

__all__ = [
    "Config",
    "Dataset",
    "Head",
    "HeadSpec",
    "InputError",
    "LossOptions",
    "Points",
    "Predictor",
    "SNMClassifier",
    "evaluate",
    "generate",
    "init_head",
    "load",
    "load_data",
    "normalize",
    "predict",
    "preset",
    "read_config",
    "train",
    "training",
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
    return getattr(importlib.import_module(f"snm.{_HOMES[name]}"), name)
