"""Tests the claim of the paper's Table 2: SNM against negative sampling, with tuned learning rates.

Repeats the comparison of Reddi et al. (2019), section 5, on other data. Every arm has the settings
of `--preset paper` and the learning rate of one common grid that has the highest R@1 on a held-out
fifth of train. The chosen settings are then trained on all of train and scored on the test points
once. One more arm is not in the paper: negative sampling with a tuned surrogate, score scale and
weight of the negatives.

    python -m experiments.mining.paper_claim DATA --out experiments/results/NAME.json

Takes about 40 minutes on 2 cores and 1.5 GB of memory for 21,000 points and 14,000 labels.
"""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

import snm
from experiments.shared.arms import KEYS, Arm, train_and_score, tune
from experiments.shared.command_line import run_command
from experiments.shared.kept_runs import KeptRuns

RATES = (30.0, 100.0, 300.0)
MINED = (1, 8, 16, 64)
WATCH = "R@1"


def arms(base: snm.Config) -> list[Arm]:
    """Negative sampling, and top-k' SNM with the same samples."""
    settings = [("negative sampling", "all"), *((f"top-{mined}", mined) for mined in MINED)]
    return [Arm(name, dataclasses.replace(base, mined=mined)) for name, mined in settings]


def strongest_grid() -> list[dict[str, Any]]:
    """The grid of negative sampling with further settings that practitioners tune.

    Score scale and weight multiply the gradient of the negatives. The learning rate is divided by
    both, so that steps of different settings are comparable in size.
    """
    values = itertools.product(
        ("logistic", "squared_hinge"), (1.0, 4.0, 16.0), (1.0, 8.0), (100.0, 300.0)
    )
    return [
        {"phi": phi, "score_scale": scale, "negative_weight": weight,
         "learning_rate": round(rate / (scale * weight), 3)}
        for phi, scale, weight, rate in values
    ]  # fmt: skip


def main(
    data: tyro.conf.Positional[str],
    out: Path,
    dim: int = 512,
    tune_epochs: int = 5,
    epochs: int = 20,
) -> None:
    """Runs all arms and writes JSON; arms that the file already has are not repeated.

    Args:
      data: folder of a data set.
      out: JSON file to write; its runs are kept, and not repeated.
      dim: dimension of the embeddings; the paper uses 512.
      tune_epochs: epochs of a tuning trial.
      epochs: epochs of the final runs.
    """
    dataset = snm.load_data(data)
    assert dataset.test is not None, "the comparison needs test points"
    base = dataclasses.replace(snm.preset("paper"), dim=dim, checkpoint_every=10**9)
    rates = [{"learning_rate": rate} for rate in RATES]
    jobs = [(arm, rates) for arm in arms(base)]
    strong = Arm("negative sampling, strongest", dataclasses.replace(base, mined="all"))
    jobs.append((strong, strongest_grid()))

    sizes = {"preset": "paper", "dim": dim, "tune_epochs": tune_epochs, "epochs": epochs}
    kept = KeptRuns(out, under="arms", data=dataset.name, sha256=dataset.sha256, **sizes)
    for arm, grid in (job for job in jobs if not kept.has(name=job[0].name)):
        found = tune(dataset, arm.with_settings(epochs=tune_epochs), grid, WATCH)
        final = train_and_score(dataset, arm.with_settings(epochs=epochs, **found["best"]).config)
        kept.add(name=arm.name, **found, **final)
    show(kept.rows)


def show(rows: list[dict[str, Any]]) -> None:
    """Prints the metrics with the ratio to negative sampling below each."""
    table = Table(title="test points; ratio to negative sampling below", title_justify="left")
    table.add_column("arm")
    table.add_column("chosen", overflow="fold")
    for key in KEYS:
        table.add_column(key, justify="right")
    base = rows[0]["metrics"]
    for row in rows:
        chosen = "\n".join(f"{k} {v}" for k, v in row["best"].items())
        cells = (f"{row['metrics'][k]:.2f}\n{row['metrics'][k] / base[k]:.2f}x" for k in KEYS)
        table.add_row(row["name"], chosen, *cells)
    Console().print(table)


if __name__ == "__main__":
    run_command(main)
