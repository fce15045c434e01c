"""Makes a larger data set from several disjoint copies of another one.

    python -m experiments.sets.copies DATA OUT --times 12

Copy c of item i is item i + c K, and copies share no feature and no label. So if features and
labels are the same items, they stay the same, which `snm data synth --like` does not guarantee.
Points of different copies are easy to tell apart; within a copy the task is as hard as before.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp
import tyro

import snm
from experiments.shared.command_line import run_command
from snm.data.formats.repository_text.writer import write_text
from snm.errors import InputError
from snm.system.files.atomic import atomic_folder


def main(
    data: tyro.conf.Positional[str],
    out: tyro.conf.Positional[Path],
    times: int = 12,
    test_points: int = 1500,
) -> None:
    """Writes `train.txt` and `test.txt` into a new folder.

    Args:
      data: folder of a data set with test points.
      out: folder to write; must not exist.
      times: copies.
      test_points: of each copy, at most; the first ones.

    Raises:
      InputError: no test points, or `out` exists.
    """
    dataset = snm.load_data(data)
    if dataset.test is None:
        raise InputError(data, "no test points", "a data set with test.txt")
    if out.exists():
        raise InputError(str(out), "a folder that exists", "a new one")
    first = dataset.test.take(np.arange(min(test_points, dataset.test.num_points)))
    with atomic_folder("OUT", out) as beside:
        for name, points in (("train", dataset.train), ("test", first)):
            parts = repeated(points.features, times), repeated(points.labels, times)
            write_text(beside / f"{name}.txt", *parts)


def repeated(rows: sp.csr_matrix, times: int) -> sp.csr_matrix:
    """The block-diagonal matrix of so many copies.

    Example:
      >>> repeated(sp.csr_matrix([[1, 2]]), 2).toarray().tolist()
      [[1, 2, 0, 0], [0, 0, 1, 2]]
    """
    return sp.block_diag([rows] * times, format="csr")


if __name__ == "__main__":
    run_command(main, description=__doc__)
