"""The CSV table of `snm evaluate --by-label`, with a line for each label."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from snm.system.files.atomic import atomic_file

__all__ = ["write_label_table"]


def write_label_table(path: Path, counts: dict[str, Any], names: Sequence[str] | None) -> None:
    """Writes the counts of each label as CSV, sorted by descending number of missed points.

    Args:
      path: the file, which is replaced as a whole.
      counts: `by_label` from `evaluate.evaluate_points`.
      names: the names of the K labels, or None.
    """
    k, train = counts["k"], counts["train"]
    test, answers, hits = (counts[key] for key in ("test", "answers", "right"))
    missed = test - hits
    header = ["label", "name", "train_points", "test_points", f"answers@{k}", f"right@{k}",
              "missed", f"precision@{k}", f"recall@{k}"]  # fmt: skip
    with atomic_file(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(header)
        for label in np.argsort(-missed, kind="stable").tolist():
            name = names[label] if names else ""
            in_train = "" if train is None else train[label]
            test_counts = (test[label], answers[label], hits[label], missed[label])
            precision = _percent(hits[label], answers[label])
            recall = _percent(hits[label], test[label])
            lines.writerow([label, name, in_train, *test_counts, precision, recall])


def _percent(part: int, whole: int) -> str:
    """The fraction in percent; an empty string if `whole` is 0."""
    return f"{100 * part / whole:.2f}" if whole else ""
