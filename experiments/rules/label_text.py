"""Measures what training on label names gains, on test points and for labels without points.

    python -m experiments.rules.label_text DATA ... --out label-text.json

DATA are folders that `snm data import` wrote, such as those of `experiments.sets.text_sets`. The
default preset trains on each with `--label-text on` and `off`, for several seeds. The result also
has what `auto` decides on: the votes of nearest neighbours without names, with names, and with
shuffled names. Then a tenth of the labels is removed from all training points, so that only their
names remain: how many of a test point's removed labels are among the best five, of all labels and
of the removed ones alone?

Takes 1 minute a data set and seed on 2 cores, and 2 more a set.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from scipy.sparse import csr_matrix

import snm
from experiments.shared.command_line import run_command
from snm.config.resolve import resolve
from snm.data.weighting import Weighting
from snm.machine.versions import machine_record
from snm.memory.label_names import try_names
from snm.runs.folder import write_json

MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")
DEFAULT = snm.preset("default")


def main(
    data: tyro.conf.Positional[list[Path]],
    out: Path | None = None,
    seeds: tuple[int, ...] = (0, 1, 2),
) -> None:
    """Trains, measures, and prints and writes the JSON.

    Args:
      data: folders of data sets.
      out: a JSON file to write.
      seeds: of the runs.
    """
    rows = []
    for folder in data:
        dataset = snm.load_data(folder)
        rows.append(trial(dataset) | {"seeds": list(seeds), "runs": runs(dataset, seeds),
                                      "held_out_labels": without_points(dataset)})  # fmt: skip
        print(json.dumps(rows[-1], indent=1), flush=True)
        if out is not None:
            write_json(out, {"preset": "default", **machine_record(), "rows": rows})


def trial(dataset: snm.Dataset) -> dict[str, Any]:
    """The sizes of a data set, and the statistics and the choice of `--label-text auto`."""
    train, names = dataset.train, dataset.name_points
    assert names is not None
    weighting = Weighting.fit("tfidf", train.features)
    mixed = np.random.default_rng(1).permutation(train.num_labels)
    others = dataclasses.replace(names, labels=csr_matrix(names.labels[:, mixed]))
    found, control = (try_names(train, points, weighting) for points in (names, others))
    assert found is not None and control is not None
    return {
        "data": dataset.name,
        "points": train.num_points,
        "labels": train.num_labels,
        "names": names.num_points,
        "auto": resolve(DEFAULT, dataset).label_text,
        "neighbours": dataclasses.asdict(found) | {"pays": found.pays},
        "names_mixed_up": dataclasses.asdict(control) | {"pays": control.pays},
    }


def runs(dataset: snm.Dataset, seeds: tuple[int, ...]) -> list[dict[str, Any]]:
    """Test metrics of each choice and seed."""
    results: list[dict[str, Any]] = []
    for seed in seeds:
        for choice in ("off", "on"):
            result = trained(dataset, choice, seed)[0]
            metrics = {name: result["metrics"][name] for name in MEASURES}
            results.append({"label_text": choice, "seed": seed, **metrics})
    return results


def trained(dataset: snm.Dataset, choice: str, seed: int) -> tuple[dict[str, Any], snm.Predictor]:
    """The result of a run, and its model."""
    config = dataclasses.replace(DEFAULT, label_text=choice, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        return snm.train(dataset, config, folder), snm.load(folder)


def without_points(dataset: snm.Dataset) -> dict[str, Any]:
    """How often labels are found that no training point has, in percent: recall@5."""
    names, labels, test = dataset.name_points, dataset.train.num_labels, dataset.test
    assert names is not None and test is not None
    named = np.intersect1d(names.labels.indices, np.flatnonzero(dataset.label_frequency()))
    held = np.sort(np.random.default_rng(0).choice(named, len(named) // 10, replace=False))
    left = csr_matrix(dataset.train.labels, copy=True)
    left.data[np.isin(left.indices, held)] = 0
    left.eliminate_zeros()
    train = dataclasses.replace(dataset.train, labels=left)
    without = dataclasses.replace(dataset, train=train, sha256="0" * 64)
    truth = test.labels[:, held]
    rows = np.flatnonzero(np.diff(truth.indptr))
    chance = {"all": 500 / labels, "held_out": 500 / len(held)}
    found: dict[str, Any] = {"labels": len(held), "test_points": len(rows), "chance": chance}
    for choice in ("off", "on"):
        result, model = trained(without, choice, 0)
        recall = {}
        for among, ids in (("all", None), ("held_out", held)):
            best, _ = model.predict(test.features[rows], 5, labels=ids)
            true = [set(held[row.indices].tolist()) for row in truth[rows]]
            shares = [len(t & set(b)) / len(t) for t, b in zip(true, best.tolist(), strict=True)]
            recall[among] = 100 * float(np.mean(shares))
        found[choice] = {"recall@5": recall, "P@1": result["metrics"]["P@1"]}
    return found


if __name__ == "__main__":
    run_command(main, description=__doc__)
