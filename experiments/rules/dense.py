"""Compares weightings, dropout and epochs on dense features with means far from 0.

    python -m experiments.rules.dense DATA ... --out dense-features.json

The features of each data set are replaced by 200 dense ones: the coordinates of a truncated SVD of
the TF-IDF features, each shifted and scaled to [0, 10]. So the data have the same information, but
all points share large means. The default preset trains on four fifths of the training set, and P@k
is of the rest; test points are not used.

`filled` asks from which density on standardization helps: 0, 0.5, ... is subtracted from the
standardized coordinates, and negative results become 0. The preset `fast` trains on these.

`passes` asks whether large sets of dense points need the 4 epochs of long points; `--parts passes`
runs it alone.

Takes about 8 minutes for the three sets of the first two results on 2 cores, and two to three
minutes a set for the third.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD

import snm
from experiments.shared.arms import train_and_score
from experiments.shared.command_line import run_command
from snm.data.dataset import Dataset
from snm.data.weighting import Weighting
from snm.machine.versions import machine_record
from snm.runs.folder import write_json

_WIDTH, _HIGHEST = 200, 10.0
_CUTS = (0.0, 0.5, 1.0, 1.5)
_EPOCHS = (2, 4)
_ARMS = {
    "tfidf": {"weighting": "tfidf"},
    "l2": {"weighting": "l2"},
    "standard, dropout 0.3": {"weighting": "standard", "input_dropout": 0.3},
    "auto": {},
}


def main(
    data: tyro.conf.Positional[list[str]],
    out: Path,
    parts: Sequence[Part] = ("rows", "filled"),
) -> None:
    """Trains the arms on all data sets, and writes the JSON.

    Args:
      data: folders of data sets.
      out: the JSON file to write.
      parts: what to compare: weightings (`rows`), from how many values on they help (`filled`), or
        numbers of epochs (`passes`).
    """
    found: dict[str, list[dict[str, Any]]] = {part: [] for part in parts}
    about = {"points": "a held-out fifth of the training set", "machine": machine_record()}
    for folder in data:
        dataset = snm.load_data(folder)
        dense = coordinates(dataset)
        for part in parts:
            for row in _PARTS[part](dataset, dense):
                found[part].append({"data": dataset.name, **row})
                print(found[part][-1], flush=True)
                write_json(out, {**about, **found})


def _weightings(dataset: Dataset, dense: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
    parts = with_features(dataset, stretched(dense))
    for name, settings in _ARMS.items():
        config = dataclasses.replace(snm.preset("default"), **settings)
        yield {"arm": name, "seed": 0, **precision(parts, config)}


def _filled(dataset: Dataset, dense: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
    standard = (dense - dense.mean(axis=0)) / dense.std(axis=0)
    for cut in _CUTS:
        values = np.maximum(standard - cut, 0)
        parts, share = with_features(dataset, values), float(np.mean(values > 0))
        for kind in ("tfidf", "l2", "standard"):
            config = dataclasses.replace(snm.preset("fast"), weighting=kind, memory="off")
            yield {"cut": cut, "filled": share, "arm": kind, **precision(parts, config)}


def _epochs(dataset: Dataset, dense: NDArray[np.float64]) -> Iterator[dict[str, Any]]:
    parts = with_features(dataset, stretched(dense))
    for preset, epochs in itertools.product(("default", "fast"), _EPOCHS):
        config = dataclasses.replace(snm.preset(preset), epochs=epochs)
        yield {"preset": preset, "epochs": epochs, "seed": 0, **precision(parts, config)}


Part = Literal["rows", "filled", "passes"]
_PARTS: dict[Part, Callable[[Dataset, NDArray[np.float64]], Iterator[dict[str, Any]]]] = {
    "rows": _weightings,
    "filled": _filled,
    "passes": _epochs,
}


def stretched(dense: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coordinates that go from 0 to 10 each."""
    low, high = dense.min(axis=0), dense.max(axis=0)
    return _HIGHEST * (dense - low) / (high - low)


def precision(parts: Dataset, config: snm.Config) -> dict[str, float]:
    """P@k of the held-out part."""
    return dict(train_and_score(parts, config, ("P@1", "P@3", "P@5"))["metrics"])


def coordinates(dataset: Dataset) -> NDArray[np.float64]:
    """Dense features of the training points, float64 [n, 200]."""
    features = dataset.train.features
    weighted = Weighting.fit("tfidf", features).apply(features)
    return TruncatedSVD(_WIDTH, random_state=0).fit_transform(weighted)


def with_features(dataset: Dataset, values: NDArray[np.float64]) -> Dataset:
    """The training set with other features, cut into four fifths and a fifth."""
    train = dataclasses.replace(dataset.train, features=csr_matrix(values.astype(np.float32)))
    # The vocabulary of a set of texts does not name these features.
    dense = dataclasses.replace(dataset, train=train, test=None, vectorizer=None)
    return dense.split(0.2, seed=0)


if __name__ == "__main__":
    run_command(main, description=__doc__)
