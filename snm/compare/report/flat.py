"""Writes `results.csv`: one line for each run of a comparison, for other programs."""

from __future__ import annotations

import csv
import io
from typing import Any

from snm.compare.report.parts import PARTS
from snm.compare.report.summary import is_metric
from snm.text import escape_controls

__all__ = ["SETTINGS", "results_csv"]

SETTINGS = (
    "loss", "phi", "sampled", "mined", "learning_rate", "negative_weight", "score_scale",
    "exclude", "epochs", "vartheta", "sampler", "sampled_start", "mined_start", "dim",
    "batch_size",
)  # fmt: skip
"""Settings that every table has; None if the arm does not read one."""

_COSTS = ("seconds", "steps", "examples_per_second", "peak_memory_bytes",
          "peak_device_memory_bytes")  # fmt: skip

_RATIOS = ("ratio", "ratio_ci95")


def results_csv(results: dict[str, Any]) -> str:
    """The content of `results.csv`: a header, and one line per part, arm and seed.

    Columns are `part`, `arm`, `baseline`, `seed`; `SETTINGS`, and all others in which arms differ;
    the metrics in percent; `seconds` of training, steps, memory; `failed`, why a run has no
    metrics; and of each metric, such as `R@1`, the columns `ratio R@1` and `ratio_ci95 R@1`:
    those of the arm, the same for all of its seeds. Missing and unread values are empty, and so are
    ratios of a baseline to itself.

    Args:
      results: the content of `results.json`, as far as it is known.
    """
    runs = [
        (part.name, arm, seed)
        for key, part in PARTS.items()
        for arm in results.get(key, ())
        for seed in arm["seeds"]
    ]
    settings = dict.fromkeys(
        (*SETTINGS, *(name for _, arm, _ in runs for name in arm["differing"]))
    )
    metrics = dict.fromkeys(
        name for _, _, seed in runs for name in seed.get("metrics", ()) if is_metric(name)
    )
    table = io.StringIO()
    lines = csv.writer(table, lineterminator="\n")
    of_arm = [(key, name) for name in metrics for key in _RATIOS]
    names = ("part", "arm", "baseline", "seed", *settings, *metrics, *_COSTS, "failed",
             *(f"{key} {name}" for key, name in of_arm))  # fmt: skip
    lines.writerow(names)
    for part, arm, seed in runs:
        settings_of_arm = {**arm, **arm["differing"]}
        values = seed.get("metrics", {})
        lines.writerow(
            (
                part, arm["name"], arm["baseline"], seed["seed"],
                *(settings_of_arm.get(name, results["plan"]["settings"].get(name)) for name in
                settings), *(values.get(name) for name in metrics),
                *(seed.get(name) for name in (*_COSTS, "failed")),
                *(None if arm["name"] == arm["baseline"] else arm[key].get(name)
                  for key, name in of_arm),
            )
        )  # fmt: skip
    return escape_controls(table.getvalue())
