"""The claim of the paper's Table 2: SNM against negative sampling, each at its own best rate.

Reddi et al. (2019), section 5, on data at hand. Every arm has the settings of `--preset paper`;
its learning rate is the best of the same grid on a held-out fifth of train, by R@1. Test points are
touched once, by the chosen settings, trained again on all of train. Beside it stands what the
paper does not show: negative sampling at its strongest, with other surrogates, a score scale and a
weight of the negatives, chosen the same way.

    python -m experiments.paper_claim DATA --out experiments/results/NAME.json

About 40 minutes on 2 cores for 21 thousand points and 14 thousand labels; 1.5 GB of memory.
"""

from __future__ import annotations

import dataclasses
import itertools
import platform
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

import snm
from experiments.arms import KEYS, Arm, scored, tuned
from snm.runs import surroundings, write_json

RATES = (30.0, 100.0, 300.0)
MINED = (1, 8, 16, 64)
WATCH = "R@1"


def arms(base: snm.Config) -> list[Arm]:
    """Negative sampling, and top-k' SNM on the same samples."""
    settings = [("negative sampling", "all"), *((f"top-{mined}", mined) for mined in MINED)]
    return [Arm(name, dataclasses.replace(base, mined=mined)) for name, mined in settings]


def strongest_grid() -> list[dict[str, Any]]:
    """Negative sampling with what practitioners would add to it."""
    names = ("phi", "score_scale", "negative_weight", "learning_rate")
    values = itertools.product(
        ("logistic", "squared_hinge"), (1.0, 8.0), (1.0, 30.0), (10.0, 100.0)
    )
    return [dict(zip(names, value, strict=True)) for value in values]


def main(
    data: tyro.conf.Positional[str],
    out: Path,
    dim: int = 512,
    tune_epochs: int = 5,
    epochs: int = 20,
) -> None:
    """Runs all arms and writes JSON.

    Args:
      data: folder of a data set.
      out: JSON file to write.
      dim: of the embeddings; the paper's is 512.
      tune_epochs: of a trial.
      epochs: of the final runs.
    """
    dataset = snm.load_data(data)
    assert dataset.test is not None, "the comparison needs test points"
    base = dataclasses.replace(snm.preset("paper"), dim=dim, checkpoint_every=10**9)
    rates = [{"learning_rate": rate} for rate in RATES]
    jobs = [(arm, rates) for arm in arms(base)]
    strong = Arm("negative sampling, strongest", dataclasses.replace(base, mined="all"))
    jobs.append((strong, strongest_grid()))

    rows: list[dict[str, Any]] = []
    for arm, grid in jobs:
        found = tuned(dataset, arm.but(epochs=tune_epochs), grid, WATCH)
        final = scored(dataset, arm.but(epochs=epochs, **found["best"]).config)
        rows.append({"name": arm.name, **found, **final})
        print(arm.name, found["best"], final["metrics"], flush=True)
        about = {k: v for k, v in surroundings().items() if not k.startswith("peak")}
        write_json(out, {"data": dataset.name, "sha256": dataset.sha256, "dim": dim,
                         "tune_epochs": tune_epochs, "epochs": epochs, "preset": "paper",
                         "machine": platform.machine(), **about, "arms": rows})  # fmt: skip
    show(rows)


def show(rows: list[dict[str, Any]]) -> None:
    """Prints the metrics and, below each, the ratio to negative sampling."""
    table = Table(title="test points; ratio to negative sampling below", title_justify="left")
    table.add_column("arm")
    table.add_column("chosen", overflow="fold")
    for key in KEYS:
        table.add_column(key, justify="right")
    base = rows[0]["metrics"]
    for row in rows:
        chosen = " ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}"
                          for k, v in row["best"].items())  # fmt: skip
        cells = (f"{row['metrics'][k]:.2f}\n{row['metrics'][k] / base[k]:.2f}x" for k in KEYS)
        table.add_row(row["name"], chosen, *cells)
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
