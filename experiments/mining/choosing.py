"""Measures how B, k' and the loss change metrics and training time, on a held-out fifth of train.

One member of dimension 128 is trained for a few epochs, with the other settings of the default
preset. A run takes under a minute, so the shape of the curves is visible quickly on any data. Each
loss uses the better of two learning rates, because the norms of their gradients differ. Test points
are not used. If the output file exists, its runs are not repeated.

    python -m experiments.mining.choosing DATA [DATA ...] --out FILE
    python -m experiments.mining.doc_plots         # draws the plots of the documentation

Takes half a minute to a minute per run on 2 busy cores, with about 25 runs per data set and seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import tyro

import snm
from experiments.shared.arms import train_and_score
from experiments.shared.command_line import run_command
from experiments.shared.kept_runs import KeptRuns

KEYS = ("P@1", "P@3", "P@5", "R@1", "R@5", "PSP@1", "PSP@5")
BASE: dict[str, Any] = {"dim": 128, "members": 1, "epochs": 4, "checkpoint_every": 10**9}
SAMPLED = (64, 256, 1024, 4096)
MINED = (16, 64, 256, "all")
LOSSES = {
    "softmax": {"loss": "softmax"},
    "bowl, hinge": {"loss": "bowl", "phi": "hinge"},
    "bowl, logistic": {"loss": "bowl", "phi": "logistic"},
    "powl, hinge": {"loss": "powl", "phi": "hinge"},
}
RATES = {"softmax": (10.0, 30.0), "other": (40.0, 120.0)}
MINED_BY_LOSSES = (16, 64)


def grid(num_labels: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the question that a run belongs to ("sizes" or "losses"), and its settings."""
    most = num_labels - 1
    sizes = sorted({min(size, most) for size in SAMPLED})
    for sampled in sizes:
        for mined in MINED:
            if mined == "all" or mined < sampled:
                yield "sizes", {"sampled": sampled, "mined": mined}
    for name, settings in LOSSES.items():
        for mined in MINED_BY_LOSSES:
            for rate in RATES.get(name, RATES["other"]):
                yield "losses", {**settings, "sampled": sizes[-1], "mined": mined,
                                 "learning_rate": rate}  # fmt: skip


def main(
    data: tyro.conf.Positional[list[str]],
    out: Path,
    questions: tuple[Literal["sizes", "losses"], ...] = ("sizes", "losses"),
    seeds: list[int] | None = None,
) -> None:
    """Trains every setting, and writes JSON after each run.

    Args:
      data: folders of data sets.
      out: JSON file to write; its runs are kept, and not repeated.
      questions: "sizes" (B and k'), "losses", or both.
      seeds: seeds of the model, by default 0. The split is the same for all.
    """
    kept = KeptRuns(out, under="cells", base=BASE)
    for folder in data:
        dataset = snm.load_data(folder)
        parts = dataset.split(0.2, seed=0)
        num_labels = dataset.train.num_labels
        for seed in seeds or [0]:
            for question, settings in grid(num_labels):
                if question not in questions:
                    continue
                if kept.has(data=dataset.name, seed=seed, settings=settings):
                    continue
                config = dataclasses.replace(
                    snm.preset("default"), **{**BASE, **settings}, seed=seed
                )
                try:
                    found = train_and_score(parts, config, KEYS)
                except ArithmeticError as error:  # the learning rate is too high
                    found = {"metrics": {}, "error": str(error).split(";")[0], "seconds": None}
                kept.add(data=dataset.name, num_labels=num_labels, seed=seed,
                         question=question, settings=settings, **found)  # fmt: skip
                shown = ", ".join(f"{key} {value}" for key, value in settings.items())
                print(f"{dataset.name:<18} {shown:<66} seed {seed}  "
                      f"P@1 {found['metrics'].get('P@1', float('nan')):.2f}  "
                      f"{found['seconds'] or 0:.0f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    run_command(main)
