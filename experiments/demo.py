"""Compares negative sampling and top-k' SNM on the data set `synthetic` (`make demo`).

The table shows every metric with its ratio to negative sampling, at equal settings and steps, as in
Table 2 of Reddi et al. (2019). The data is generated, so the result shows that the code works and
the direction of the effect, but not its size on real data.

    python -m experiments.demo --out experiments/results/demo.json

Takes about a minute on 2 cores.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import snm
from experiments.shared.arms import KEYS, train_and_score
from experiments.shared.command_line import run_command
from snm.machine.versions import machine_record
from snm.runs.folder import write_json

MINED = (1, 16, 64, "all")
SAMPLED = 1024


def main(out: Path | None = None) -> None:
    """Trains four small models and prints the table.

    Args:
      out: JSON file to write.
    """
    started = time.perf_counter()
    console = Console(highlight=False)
    dataset = snm.load_data("synthetic")
    assert dataset.test is not None
    console.print(
        f"synthetic data: {dataset.train.num_points:,} training points, "
        f"{dataset.train.num_features:,} features, {dataset.train.num_labels:,} labels; "
        f"{SAMPLED:,} labels sampled a step"
    )
    rows = {}
    for mined in reversed(MINED):
        name = "negative sampling" if mined == "all" else f"top-{mined} SNM"
        with console.status(f"training: {name}"):
            config = dataclasses.replace(
                snm.preset("paper"), dim=128, epochs=15, sampled=SAMPLED, mined=mined
            )
            rows[name] = train_and_score(dataset, config)
        console.print(f"{name:<18} trained in {rows[name]['seconds']:5.1f} s")

    table = Table(title="test points, percent; ratio to negative sampling", title_justify="left")
    table.add_column("")
    for key in KEYS:
        table.add_column(key, justify="right")
    base = rows["negative sampling"]["metrics"]
    for name, row in rows.items():
        ratio = (f"{row['metrics'][k]:.2f}  {row['metrics'][k] / base[k]:4.2f}x" for k in KEYS)
        table.add_row(name, *ratio)
    console.print(table)
    if out:
        arms = [{"name": name, **row} for name, row in rows.items()]
        seconds = time.perf_counter() - started
        write_json(out, {"data": "synthetic", **machine_record(), "seconds": seconds, "arms": arms})


if __name__ == "__main__":
    run_command(main)
