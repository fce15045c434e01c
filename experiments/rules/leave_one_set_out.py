"""Tests whether the rule of `--input-dropout auto` generalizes to data sets not used to choose it.

    python -m experiments.rules.leave_one_set_out DATA ... [--runs FILE] [--out FILE]

For each data set, the two thresholds of the evidence lost are chosen on all sets, and on all
others. The score of a set at a dropout rate is interpolated linearly between the runs of
`experiments.defaults.default_preset` at 0, 0.2, 0.35 and 0.5: the mean of P@1, P@3, P@5 and PSP@5
on a held-out fifth, as a share of the set's best. The generated sets
of `experiments.defaults.default_preset` choose nothing; the file has the rule's choice for them
too.
Prints Markdown.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from unittest import mock

import numpy as np
import tyro

from experiments.defaults.default_preset import GENERATED, make_dataset
from experiments.shared.command_line import run_command
from snm.config import auto
from snm.config.evidence import evidence_lost, neighbors_lost
from snm.runs.folder import read_json, write_json

RUNS = Path(__file__).parents[1] / "results" / "input-dropout.json"
KEYS = ("P@1", "P@3", "P@5", "PSP@5")
LOW = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06)
HIGH = (0.08, 0.12, 0.16, 0.2, 0.25)

Curve = dict[float, float]
"""Share of dropout -> the mean of `KEYS`, in percent."""


def main(data: tyro.conf.Positional[list[str]], runs: Path = RUNS, out: Path | None = None) -> None:
    """Prints a row for each data set.

    Args:
      data: folders of data sets that `runs` has, and names of generated ones.
      runs: JSON file of `experiments.defaults.default_preset`.
      out: JSON file to write.
    """
    cells = read_json(runs)["cells"]
    curves, counts, rows = {}, {}, {}
    for folder in data:
        dataset = make_dataset(folder)
        train, name = dataset.train, dataset.name
        count = (train.points_per_label, evidence_lost(train), neighbors_lost(train))
        rows[name] = {
            "data": name,
            "features a point": train.features_per_point,
            "lost": count[1],
            "rule": auto.auto_input_dropout(*count),
        }
        if name not in GENERATED:
            curves[name], counts[name] = curve_of(cells, name), count
    everywhere = chosen(curves, counts)
    print("| data | lost | 0.5 | the rule | chosen on all | on the others | their thresholds |")
    print("|---|---:|---:|---:|---:|---:|---|")
    for name, curve in curves.items():
        others = {other: curves[other] for other in curves if other != name}
        without = chosen(others, counts)
        row = rows[name]
        row |= {"half": curve[0.5], "the rule": at(curve, row["rule"])}
        for title, thresholds in (("chosen on all", everywhere), ("on the others", without)):
            row[title] = at(curve, rule(counts[name], thresholds))
        row["low"], row["high"] = without
        shown = " | ".join(
            f"{row[key]:.2f}" for key in ("half", "the rule", "chosen on all", "on the others")
        )
        print(f"| `{name}` | {row['lost']:.3f} | {shown} | {without[0]:g}, {without[1]:g} |")
    print(f"\nThresholds chosen on all sets: {everywhere[0]:g} and {everywhere[1]:g}.")
    if out:
        write_json(out, {"chosen on all": everywhere, "rows": list(rows.values())})


def curve_of(cells: list[dict], name: str) -> Curve:
    """The mean of `KEYS` and of the seeds at each share of dropout."""
    found: dict[float, list[float]] = {}
    for cell in cells:
        if cell["data"] == name:
            share = json.loads(cell["idea"])["input_dropout"]
            found.setdefault(share, []).append(np.mean([cell["metrics"][key] for key in KEYS]))
    return {share: float(np.mean(values)) for share, values in sorted(found.items())}


def at(curve: Curve, share: float) -> float:
    """The curve between its shares."""
    return float(np.interp(share, list(curve), list(curve.values())))


def rule(counts: tuple[float, float, float], thresholds: tuple[float, float]) -> float:
    """`auto_input_dropout` with other thresholds."""
    with mock.patch.object(auto, "_EVIDENCE_LOST", thresholds):
        return auto.auto_input_dropout(*counts)


def chosen(
    curves: dict[str, Curve], counts: dict[str, tuple[float, float, float]]
) -> tuple[float, float]:
    """The thresholds of the highest mean share of the best, of equals the middle ones."""

    def score(thresholds: tuple[float, float]) -> float:
        shares = []
        for name, curve in curves.items():
            dropout = rule(counts[name], thresholds)
            shares.append(at(curve, dropout) / max(curve.values()))
        return float(np.mean(shares))

    pairs = list(itertools.product(LOW, HIGH))
    best = max(score(pair) for pair in pairs)
    equal = [pair for pair in pairs if score(pair) > best - 1e-9]
    return equal[len(equal) // 2]


if __name__ == "__main__":
    run_command(main)
