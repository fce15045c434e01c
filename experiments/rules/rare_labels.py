"""Measures what labels with one or two points cost the other labels.

    python -m experiments.rules.rare_labels DATA ... --out rare-labels.json

Copies of labels are added to each data set: a copy is of a label drawn by frequency, and has one or
two of the training points of that label. There are so many copies that the number of labels grows
by the factor `--labels`; with 3.55, `citeulike-t-14k` has as many as with the labels that were
dropped from it as too rare. The default preset, without its use of names and items, trains on four
fifths of the training set, with and without the copies. On the other fifth only the original labels
are relevant: a predicted copy is wrong, and the loss in P@k is what rare labels take from others.
`model` is the trained model alone, `whole` includes its memory of neighbours and its logit
adjustment.

Takes 4 minutes a data set on 2 cores.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy.sparse import csr_matrix, hstack

import snm
from experiments.shared.arms import metrics_on_test
from experiments.shared.command_line import run_command
from snm.data.dataset import Dataset
from snm.machine.versions import machine_record
from snm.runs.folder import write_json

# A copy has no name and is no feature, so that `auto` would choose these otherwise with copies.
SAME: dict[str, Any] = {"label_text": "off", "seen": "keep", "item_splits": 0}
KEYS = ("P@1", "P@3", "P@5", "PSP@1", "PSP@5")


def main(
    data: tyro.conf.Positional[list[str]],
    out: Path,
    labels: float = 3.55,
    seeds: tuple[int, ...] = (0,),
) -> None:
    """Trains on all data sets, without and with copies, and writes the JSON.

    Args:
      data: folders of data sets.
      out: the JSON file to write.
      labels: the number of labels with copies over that without.
      seeds: of the models; data and copies are the same for all.
    """
    rows: list[dict[str, Any]] = []
    for folder in data:
        original = dataclasses.replace(snm.load_data(folder), test=None)
        many = with_copies(original, round((labels - 1) * original.train.num_labels))
        for kind, dataset in (("without", original), ("with", many)):
            parts = dataset.split(0.2, seed=0)
            assert parts.test is not None
            test = dataclasses.replace(
                parts.test, labels=only_first(parts.test.labels, original.train.num_labels)
            )
            parts = dataclasses.replace(parts, test=test)
            for seed in seeds:
                rows.append({
                    "data": original.name, "copies": kind, "seed": seed,
                    "labels": dataset.train.num_labels, **measure(parts, seed),
                })  # fmt: skip
                print(rows[-1], flush=True)
                about = {
                    "points": "a held-out fifth of the training set",
                    "machine": machine_record(),
                }
                write_json(out, {**about, "rows": rows})


def with_copies(dataset: Dataset, count: int) -> Dataset:
    """The data set with `count` more labels, of which each copies another on one or two points."""
    rng = np.random.default_rng(0)
    frequency, train = dataset.label_frequency(), dataset.train
    by_label = train.labels.tocsc()
    rows, columns = [], []
    for copy, label in enumerate(rng.choice(len(frequency), count, p=frequency / frequency.sum())):
        having = by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]
        some = rng.choice(having, min(len(having), rng.integers(1, 3)), replace=False)
        rows += some.tolist()
        columns += [copy] * len(some)
    ones = np.ones(len(rows), np.float32)
    copies = csr_matrix((ones, (rows, columns)), (train.num_points, count))
    labels = csr_matrix(hstack([train.labels, copies]), dtype=np.float32)
    more = dataclasses.replace(train, labels=labels)
    # Another data set: its results must not be taken for those of the original.
    return dataclasses.replace(dataset, train=more, label_names=None, sha256="0" * 64)


def only_first(labels: csr_matrix, count: int) -> csr_matrix:
    """The entries of the first columns, in a matrix of the same shape."""
    kept = labels[:, :count]
    return csr_matrix((kept.data, kept.indices, kept.indptr), labels.shape)


def measure(parts: Dataset, seed: int) -> dict[str, Any]:
    """Metrics of a run of the default preset: of the model alone, and of the whole."""
    with tempfile.TemporaryDirectory() as place:
        config = dataclasses.replace(snm.preset("default"), seed=seed, **SAME)
        result = snm.train(parts, config, f"{place}/run")
        model = metrics_on_test(snm.load(f"{place}/run", memory=False), parts, KEYS)
    return {
        "model": model,
        "whole": {key: result["metrics"][key] for key in KEYS},
        "memory": result["memory"]["used"],
        "adjustment": (result["memory"]["adjustment"] or {"strength": 0})["strength"],
    }


if __name__ == "__main__":
    run_command(main, description=__doc__)
