"""Finds the learning rate for `--weight-scale surrogate` of the ordered losses.

Each loss is trained with `--preset fast` on four fifths of the training points, with B 256, k' 16,
`--exclude positive` and no memory. The weights add up to 1, or bound the retrieval loss at k; the
latter run at the rate of the former and at `--learning-rate auto`. Precision is of the other fifth.

    python -m experiments.mining.surrogate_rates DATA ... \
        --out experiments/results/surrogate-rates.json
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import tyro

import snm
from experiments.shared.command_line import run_command
from snm.config.resolve import resolve
from snm.config.settings import Config, preset
from snm.data.dataset import Dataset
from snm.runs.folder import write_json

METRICS = ("P@1", "P@3", "P@5")
KS = (1, 5)
BASE: dict[str, Any] = {
    "validation_fraction": 0.2,
    "memory": "off",
    "exclude": "positive",
    "sampled": 256,
    "mined": 16,
}


def measure(dataset: Dataset, config: Config) -> dict[str, Any]:
    """The rate of a training and its precision on the points held out, in percent."""
    with tempfile.TemporaryDirectory() as name:
        result = snm.train(dataset, config, Path(name) / "run")
    rate = resolve(config, dataset).learning_rate
    scores = result["validation"]["metrics"]
    return {"rate": rate, **{name: round(scores[name], 2) for name in METRICS}}


def main(data: tyro.conf.Positional[tuple[Path, ...]], out: Path) -> None:
    """Trains all arms on each set, and writes the results."""
    base, rows = dataclasses.replace(preset("fast"), **BASE), []
    for folder in data:
        dataset = snm.load_data(folder)
        for loss in ("bowl", "powl"):
            config = dataclasses.replace(base, loss=loss)
            about = {"data": dataset.name, "loss": loss}
            mean = measure(dataset, config)
            rows.append(about | {"arm": "mean"} | mean)
            for k in KS:
                bound = dataclasses.replace(config, weight_scale="surrogate", retrieval_k=k)
                for name, rate in (("rate of the mean", mean["rate"]), ("auto", "auto")):
                    found = measure(dataset, dataclasses.replace(bound, learning_rate=rate))
                    rows.append(about | {"arm": f"k {k}, {name}"} | found)
            write_json(out, {"preset": "fast", **BASE, "rows": rows})
            print(*rows[-5:], sep="\n", flush=True)


if __name__ == "__main__":
    run_command(main)
