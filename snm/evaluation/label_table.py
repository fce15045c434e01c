"""What `snm evaluate --by-label` writes: a line for each label."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from snm.system.files import whole_file

__all__ = ["write_label_table"]


def write_label_table(path: Path, counts: dict[str, Any], names: Sequence[str] | None) -> None:
    """Writes CSV: the labels whose points miss them most often come first.

    Args:
      path: the file, which is replaced as a whole.
      counts: `by_label` of `evaluation.evaluate_points`.
      names: K names, or None.
    """
    k = counts["k"]
    test, answers, right = (counts[key] for key in ("test", "answers", "right"))
    train = counts["train"]
    missed = test - right
    head = ["label", "name", "train_points", "test_points", f"answers@{k}", f"right@{k}", "missed",
            f"precision@{k}", f"recall@{k}"]  # fmt: skip
    with whole_file(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(head)
        for label in np.lexsort((np.arange(len(missed)), -missed)).tolist():
            counted = (test[label], answers[label], right[label], missed[label])
            shares = (_percent(right[label], of) for of in (answers[label], test[label]))
            known = names[label] if names else "", "" if train is None else train[label]
            lines.writerow([label, *known, *counted, *shares])


def _percent(part: int, whole: int) -> str:
    """A share in percent, or nothing where there is no whole."""
    return f"{100 * part / whole:.2f}" if whole else ""
