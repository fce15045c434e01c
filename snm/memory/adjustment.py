"""Logit adjustment: lowers the scores of frequent labels where that raises precision.

A score is lowered by a multiple of the logarithm of its label's training points, after training
(Menon et al., "Long-tail learning via logit adjustment", ICLR 2021). Rows of rare labels are
updated less often than those of frequent ones, and their scores stay too low. The multiple is
chosen on the held-out points that choose the memory.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from snm.data.formats.binary import DAMAGE, damage_error, map_npy
from snm.errors import InputError
from snm.system.files.atomic import atomic_file

__all__ = ["STRENGTHS", "label_shifts", "load_shifts", "save_shifts"]

STRENGTHS = (0.05, 0.1, 0.2, 0.3)
"""The multiples that are tried, for one member."""


def label_shifts(frequency: NDArray[np.integer], strength: float) -> NDArray[np.float32]:
    """What is added to the score of each label, float32 [K]: -strength * log(frequency).

    The shift of a label with one point or none is 0.

    Args:
      frequency: int [K], the training points that have the label.
      strength: the multiple, at least 0.

    Example:
      >>> [round(shift, 2) for shift in label_shifts(np.array([0, 1, 100]), 0.1).tolist()]
      [-0.0, -0.0, -0.46]
    """
    return (-strength * np.log(np.maximum(frequency, 1))).astype(np.float32)


def save_shifts(path: Path, shifts: NDArray[np.float32]) -> None:
    """Writes float32 [K]; the file appears when it is whole."""
    with atomic_file(path) as partial, partial.open("wb") as out:
        np.save(out, shifts, allow_pickle=False)


def load_shifts(path: Path, *, num_labels: int) -> NDArray[np.float32]:
    """Reads what `save_shifts` wrote.

    Raises:
      InputError: no such file, damage, or the shifts of another number of labels.
    """
    expected = f"{num_labels} finite numbers that `snm train` wrote"
    try:
        shifts = np.array(map_npy(path))
    except DAMAGE as error:
        raise damage_error(path, error, "damaged", expected) from error
    if shifts.dtype != np.float32:
        raise InputError(str(path), "other content", expected)
    if shifts.shape != (num_labels,) or not np.isfinite(shifts).all():
        raise InputError(str(path), f"an array {list(shifts.shape)}", expected)
    return shifts
