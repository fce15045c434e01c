"""Tests class rows with a part predicted from label names; the idea was not adopted.

    python -m experiments.rules.name_rows DATA ... --out name-rows.json

The default preset is trained once for each data set and seed. Then the class row w of a label with
n training points becomes n w + s p, scaled to length 1: p is the row predicted from the name of the
label, by the names and rows of all labels (`snm.grow.name_rows`), and s is the number of points
that the name counts as. Test metrics are reported for each s; 0 is the model as trained. Memory and
logit adjustment are those of the run.

Takes 2 minutes a data set and seed on 2 cores.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import tyro
from numpy.typing import NDArray

import snm
from experiments.shared.arms import metrics_on_test
from experiments.shared.command_line import run_command
from snm.grow.name_rows import predict_rows_from_names
from snm.machine.versions import machine_record
from snm.runs.folder import RunFolder, write_json

STRENGTHS = (0.0, 1.0, 2.0, 4.0)
MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")


def main(
    data: tyro.conf.Positional[list[Path]],
    out: Path | None = None,
    seeds: tuple[int, ...] = (0,),
) -> None:
    """Trains, measures, and prints and writes the JSON.

    Args:
      data: folders of data sets whose labels have names.
      out: a JSON file to write.
      seeds: of the runs.
    """
    rows: list[dict[str, Any]] = []
    for folder in data:
        for seed in seeds:
            for one in measure(folder, seed):
                rows.append(one)
                print(json.dumps(one), flush=True)
            if out is not None:
                write_json(out, {"preset": "default", **machine_record(), "rows": rows})


def measure(data: Path, seed: int) -> list[dict[str, Any]]:
    """Test metrics at each strength."""
    dataset = snm.load_data(data)
    assert dataset.label_names is not None
    frequency = dataset.label_frequency()
    with tempfile.TemporaryDirectory() as folder:
        snm.train(dataset, dataclasses.replace(snm.preset("default"), seed=seed), folder)
        predictor, config = snm.load(folder), RunFolder(Path(folder)).settings()
    propensity = (config.propensity_a, config.propensity_b)
    table = predictor.state.head.table
    trained = np.asarray(table.rows)
    own = np.split(trained, predictor.model.members, axis=1)  # a part of each member
    shared = [
        predict_rows_from_names(rows, dataset.label_names, dataset.label_names) for rows in own
    ]
    results = []
    for strength in STRENGTHS:
        mixed = trained
        if strength:
            pairs = zip(own, shared, strict=True)
            mixed = np.concatenate([mix(*pair, frequency, strength) for pair in pairs], axis=1)
        head = dataclasses.replace(
            predictor.state.head, table=dataclasses.replace(table, rows=jnp.asarray(mixed))
        )
        model = dataclasses.replace(
            predictor, state=dataclasses.replace(predictor.state, head=head)
        )
        results.append({"data": dataset.name, "seed": seed, "strength": strength}
                    | metrics_on_test(model, dataset, MEASURES, propensity))  # fmt: skip
    return results


def mix(
    rows: NDArray[np.float32],
    shared: NDArray[np.float64],
    frequency: NDArray[np.int64],
    strength: float,
) -> NDArray[np.float32]:
    """Rows of length 1; one without a training point and a known name stays."""
    mixed = frequency[:, None] * rows + strength * shared
    lengths = np.linalg.norm(mixed, axis=1, keepdims=True)
    return np.where(lengths > 0, mixed / np.maximum(lengths, 1e-30), rows).astype(np.float32)


if __name__ == "__main__":
    run_command(main, description=__doc__)
