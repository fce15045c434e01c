"""Streams the features of a file in any format of data sets: text, `.npz` or `.npy`.

Any fault of a file raises one `InputError` that names the file and, in text, the line. Nothing is
repaired silently.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix, vstack

from snm.data.formats.binary import iter_npy, read_npz
from snm.data.formats.repository_text.errors import FEATURES, ONE_FILE
from snm.data.formats.repository_text.reader import TextReader, join_pieces
from snm.errors import InputError
from snm.text import counted

__all__ = ["iter_features"]


def iter_features(path: str | Path, num_features: int, chunk_rows: int) -> Iterator[csr_matrix]:
    """Streams the features of a file in bounded memory; a `.npz` is read whole.

    Args:
      path: one-file text (its labels, if any, are checked and dropped) or `X_Xf` text, plain or
        gzipped; a SciPy `.npz` CSR matrix; a dense `.npy` matrix.
      num_features: required number of features d.
      chunk_rows: rows of each piece; the last one may have fewer.

    Yields:
      float32 CSR [up to chunk_rows, d] with sorted ids and no zeros, in the order of the file.

    Raises:
      InputError: another number of features, or any fault of the file. Pieces before the fault
        may have been yielded.
    """
    path = Path(path)
    if path.suffix.lower() == ".npz":
        features = read_npz(path, width=num_features)
        for first in range(0, features.shape[0], chunk_rows):
            yield features[first : first + chunk_rows]
    elif path.suffix.lower() == ".npy":
        yield from iter_npy(path, chunk_rows, width=num_features)
    else:
        yield from _iter_text(path, num_features, chunk_rows)


def _iter_text(path: Path, num_features: int, chunk_rows: int) -> Iterator[csr_matrix]:
    reader = TextReader(path, ONE_FILE, FEATURES)
    if reader.header.num_features != num_features:
        found = f"a header of {counted(reader.header.num_features, 'feature')}"
        raise InputError(f"{path}:1", found, f"{num_features}")
    waiting, num_waiting = [csr_matrix((0, num_features), dtype=np.float32)], 0
    for block in reader.blocks():
        waiting.append(join_pieces([block.counts], [block.ids], [block.values], num_features))
        num_waiting += block.rows
        if num_waiting >= chunk_rows:  # not at each block, as long rows come in many
            rows = vstack(waiting, format="csr")
            whole = num_waiting // chunk_rows * chunk_rows
            for first in range(0, whole, chunk_rows):
                yield rows[first : first + chunk_rows]
            waiting, num_waiting = [rows[whole:]], num_waiting - whole
    if num_waiting:
        yield vstack(waiting, format="csr")
