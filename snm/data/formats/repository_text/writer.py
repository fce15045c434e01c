"""Writes the one-file text form of the Extreme Classification Repository."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import numpy as np
from scipy.sparse import csr_matrix

from snm.errors import InputError
from snm.system.faults import describe_error
from snm.system.files.atomic import atomic_file

__all__ = ["TextWriter", "write_text"]

_CHUNK_ROWS = 1 << 14  # rows formatted at once
_HEADER_WIDTH = 60  # three numbers of up to 19 digits


def write_text(path: str | Path, features: csr_matrix, labels: csr_matrix) -> None:
    """Writes the one-file form atomically: to a temporary file, which is then renamed to `path`.

    Args:
      path: the file; `.gz` compresses it.
      features: CSR [n, d]; a value is written with the fewest digits that read back as the same
        float32.
      labels: CSR [n, K]; stored entries are labels.

    Raises:
      InputError: features and labels have different numbers of rows; a value is not finite; the
        file cannot be written.
    """
    path = Path(path)
    if features.shape[0] != labels.shape[0]:
        found = f"{features.shape[0]} rows of features and {labels.shape[0]} of labels"
        raise InputError(str(path), found, "equal numbers of rows")
    with np.errstate(over="ignore"):
        if not np.isfinite(features.data.astype(np.float32)).all():
            raise InputError(str(path), "a value that is not finite", "finite float32 features")
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with (
            atomic_file(path) as temporary,
            opener(temporary, "wt", encoding="ascii", newline="\n") as out,
        ):
            out.write(f"{features.shape[0]} {features.shape[1]} {labels.shape[1]}\n")
            for first in range(0, features.shape[0], _CHUNK_ROWS):
                out.writelines(_as_lines(features, labels, first))
    except OSError as error:
        reason = describe_error(error)
        raise InputError(str(path), reason, "a file that can be written") from error


class TextWriter:
    """Writes rows as they arrive, and fills in the header, which counts them, at the end.

    Args:
      path: the file, not compressed. It exists from the start; the caller must hide it until
        `finish` was called.

    Attributes:
      rows: number of rows written.
    """

    def __init__(self, path: Path):
        self._stream = path.open("w", encoding="ascii", newline="\n")
        self._stream.write(" " * _HEADER_WIDTH + "\n")
        self.rows = 0

    def append(self, features: csr_matrix, labels: csr_matrix) -> None:
        """Writes rows: CSR [n, d] and CSR [n, K]; widths may grow from call to call."""
        for first in range(0, features.shape[0], _CHUNK_ROWS):
            self._stream.writelines(_as_lines(features, labels, first))
        self.rows += features.shape[0]

    def finish(self, num_features: int, num_labels: int) -> None:
        """Writes the header and closes the file."""
        self._stream.seek(0)
        self._stream.write(f"{self.rows} {num_features} {num_labels}".ljust(_HEADER_WIDTH))
        self._stream.close()

    def __enter__(self) -> TextWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()


def _as_lines(features: csr_matrix, labels: csr_matrix, first: int) -> Iterator[str]:
    """Formats the rows from `first` on, at most `_CHUNK_ROWS` of them."""
    last = min(first + _CHUNK_ROWS, features.shape[0])
    ends, label_ends = features.indptr[first : last + 1], labels.indptr[first : last + 1]
    part = slice(ends[0], ends[-1])
    # Values repeat (counts do), so each distinct one is formatted once. Bits tell 0 from -0.
    bits = features.data[part].astype(np.float32).view(np.uint32)
    distinct, which = np.unique(bits, return_inverse=True)
    words = [_shortest(value) for value in distinct.view(np.float32)]
    ids = features.indices[part].tolist()
    entries = [f"{index}:{words[word]}" for index, word in zip(ids, which.tolist(), strict=True)]
    names = [str(label) for label in labels.indices[label_ends[0] : label_ends[-1]]]
    spans = pairwise((ends - ends[0]).tolist())
    label_spans = pairwise((label_ends - label_ends[0]).tolist())
    for (start, end), (label_start, label_end) in zip(spans, label_spans, strict=True):
        yield f"{','.join(names[label_start:label_end])} {' '.join(entries[start:end])}\n"


def _shortest(value: np.float32) -> str:
    """The fewest digits that read back as the same float32."""
    whole = 1 <= abs(value) < 1e6 and value == int(value)
    return str(int(value)) if whole else str(value)
