"""Makes a sparse recommender data set from the package dependencies of a Debian mirror.

    python -m experiments.sets.baskets PATH ... --out DATA

A basket is the set of packages that a package depends on or recommends, without those that fewer
than five packages need. A random half of a basket of four or more is the features of a point, the
rest its labels; features and labels are the same items. Equal baskets count once. A fifth of the
points are test points.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tyro
from scipy.sparse import csr_matrix

from experiments.sets.debian_sets import needs
from experiments.shared.command_line import run_command
from snm.data.formats.repository_text.writer import write_text
from snm.errors import InputError
from snm.system.files.atomic import atomic_folder

FEWEST, SMALLEST = 5, 4
TEST = 0.2


def main(paths: tyro.conf.Positional[list[Path]], out: Path) -> None:
    """Writes `train.txt` and `test.txt` into a new folder.

    Args:
      paths: files of a Debian mirror.
      out: folder to write; must not exist.

    Raises:
      InputError: `out` exists.
    """
    if out.exists():
        raise InputError(str(out), "a folder that exists", "a new one")
    rng = random.Random(0)
    baskets = frequent(list(needs(paths).values()))
    items = {one: i for i, one in enumerate(sorted({one for basket in baskets for one in basket}))}
    rng.shuffle(baskets)
    halves: tuple[list[list[int]], list[list[int]]] = ([], [])
    for basket in baskets:
        ids = [items[one] for one in basket]
        rng.shuffle(ids)
        middle = (len(ids) + 1) // 2
        halves[0].append(ids[:middle])
        halves[1].append(ids[middle:])
    kept = len(baskets) - int(TEST * len(baskets))
    with atomic_folder("--out", out) as beside:
        for name, part in (("train", slice(kept)), ("test", slice(kept, None))):
            rows = (ones(half[part], len(items)) for half in halves)
            write_text(beside / f"{name}.txt", *rows)
    print(
        f"{kept:,} training and {len(baskets) - kept:,} test points, {len(items):,} items in {out}"
    )


def frequent(baskets: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The distinct baskets with four or more items that occur in at least five baskets.

    Example:
      >>> frequent([["a", "b", "c", "d", str(i)] for i in range(5)])
      [('a', 'b', 'c', 'd')]
    """
    counts = Counter(one for basket in baskets for one in basket)
    kept = (sorted(one for one in basket if counts[one] >= FEWEST) for basket in baskets)
    return list(dict.fromkeys(tuple(basket) for basket in kept if len(basket) >= SMALLEST))


def ones(rows: Sequence[Sequence[int]], width: int) -> csr_matrix:
    """CSR [n, width] of ones at these ids."""
    starts = np.cumsum([0, *map(len, rows)])
    ids = np.array([one for row in rows for one in sorted(row)], np.int32)
    return csr_matrix((np.ones(len(ids), np.float32), ids, starts), shape=(len(rows), width))


if __name__ == "__main__":
    run_command(main, description=__doc__)
