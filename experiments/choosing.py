"""How do B, k' and the loss change what is learned and what it costs? A grid on a held-out fifth.

One member of dimension 128, few epochs, everything else as the default preset has it: small enough
that a cell takes seconds, so that the shape of the curves can be seen on any data in minutes. The
losses are compared each at the better of two rates, for their gradients differ in length. Test
points are never looked at. A file that exists goes on: cells that it holds are not run again.

    python -m experiments.choosing DATA [DATA ...] --out FILE
    python -m experiments.doc_plots         # draws what the documentation shows

Half a minute to a minute a cell on 2 busy cores, some 25 cells a data set and seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import tyro

import snm
from experiments.arms import scored
from snm.runs.folder import read_json, write_json
from snm.system.versions import machine

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
    """What is tried: the part of the question that it answers, and its settings."""
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
    """Trains every cell, and writes JSON after each.

    Args:
      data: folders of data sets.
      out: JSON file to write, or to go on with.
      questions: B and k', the losses, or both.
      seeds: of the model; 0 where left out. The split is one.
    """
    cells: list[dict[str, Any]] = read_json(out)["cells"] if out.exists() else []
    done = [{**cell["settings"], "data": cell["data"], "seed": cell["seed"]} for cell in cells]
    for folder in data:
        dataset = snm.load_data(folder)
        parts = dataset.split(0.2, seed=0)
        num_labels = dataset.train.num_labels
        for seed in seeds or [0]:
            for question, settings in grid(num_labels):
                if question not in questions:
                    continue
                if {**settings, "data": dataset.name, "seed": seed} in done:
                    continue
                config = dataclasses.replace(
                    snm.preset("default"), **{**BASE, **settings}, seed=seed
                )
                try:
                    found = scored(parts, config, KEYS)
                except ArithmeticError as error:  # a rate that is too high
                    found = {"metrics": {}, "error": str(error).split(";")[0], "seconds": None}
                cells.append({"data": dataset.name, "num_labels": num_labels, "seed": seed,
                              "question": question, "settings": settings, **found})  # fmt: skip
                write_json(out, {**machine(), "base": BASE, "cells": cells})
                shown = ", ".join(f"{key} {value}" for key, value in settings.items())
                print(f"{dataset.name:<18} {shown:<66} seed {seed}  "
                      f"P@1 {found['metrics'].get('P@1', float('nan')):.2f}  "
                      f"{found['seconds'] or 0:.0f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    tyro.cli(main)
