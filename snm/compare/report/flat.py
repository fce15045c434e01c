"""Writes `results.csv`: one line for each run of a comparison, for other programs."""

from __future__ import annotations

import csv
import io
from typing import Any

from snm.system.escapes import plain

__all__ = ["PARTS", "SETTINGS", "flat"]

PARTS = {"arms": "equal steps", "tuned": "tuned", "equal_seconds": "equal seconds"}
"""Tables of `results.json` that have runs -> what `results.csv` calls them."""

SETTINGS = (
    "loss", "phi", "sampled", "mined", "learning_rate", "negative_weight", "score_scale",
    "exclude", "epochs", "vartheta", "sampler", "sampled_start", "mined_start", "dim",
    "batch_size",
)  # fmt: skip
"""Settings of an arm that every table has; None where the arm does not read it."""

_COSTS = ("seconds", "steps", "examples_per_second", "peak_memory_bytes",
          "peak_device_memory_bytes")  # fmt: skip


def flat(results: dict[str, Any]) -> str:
    """The content of `results.csv`: one line per part, arm and seed, below their names.

    Columns are `part`, `arm`, `baseline`, `seed`; `SETTINGS`, and all others in which arms differ;
    the metrics in percent; `seconds` of training, steps, memory; and `failed`, the reason of a run
    without metrics. What a run does not have or read is empty.

    Args:
      results: the content of `results.json`, as far as it is known.
    """
    runs = [
        (words, arm, seed)
        for part, words in PARTS.items()
        for arm in results.get(part, ())
        for seed in arm["seeds"]
    ]
    settings = dict.fromkeys(
        (*SETTINGS, *(name for _, arm, _ in runs for name in arm["differing"]))
    )
    metrics = dict.fromkeys(
        name for _, _, seed in runs for name in seed.get("metrics", ()) if "@" in name
    )
    table = io.StringIO()
    lines = csv.writer(table, lineterminator="\n")
    names = ("part", "arm", "baseline", "seed", *settings, *metrics, *_COSTS, "failed")
    lines.writerow(names)
    for words, arm, seed in runs:
        own = {**arm, **arm["differing"]}
        found = seed.get("metrics", {})
        lines.writerow(
            (
                words, arm["name"], arm["baseline"], seed["seed"],
                *(own.get(name, results["plan"]["settings"].get(name)) for name in settings),
                *(found.get(name) for name in metrics),
                *(seed.get(name) for name in (*_COSTS, "failed")),
            )
        )  # fmt: skip
    return plain(table.getvalue())
