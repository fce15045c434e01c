"""The repository's one-file text form, written whole or a piece at a time."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import numpy as np
from scipy.sparse import csr_matrix

from snm.errors import InputError

__all__ = ["TextWriter", "write_text"]

_WRITTEN_ROWS = 1 << 14  # put into words at once
_HEADER_ROOM = 60  # three numbers of up to 19 digits


def write_text(path: str | Path, features: csr_matrix, labels: csr_matrix) -> None:
    """Writes the one-file form, beside `path` and then renamed: it is there whole or not at all.

    Args:
      path: the file; `.gz` packs it.
      features: CSR [n, d]; a value is written with the fewest digits that read back the same
        float32.
      labels: CSR [n, K]; stored entries are labels.

    Raises:
      InputError: features and labels of different numbers of rows; a value that is not finite; a
        place that cannot be written.
    """
    path = Path(path)
    if features.shape[0] != labels.shape[0]:
        found = f"{features.shape[0]} rows of features and {labels.shape[0]} of labels"
        raise InputError(str(path), found, "as many of either")
    with np.errstate(over="ignore"):
        if not np.isfinite(features.data.astype(np.float32)).all():
            raise InputError(str(path), "a value that is not finite", "finite float32 features")
    beside = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(beside, "wt", encoding="ascii", newline="\n") as out:
            out.write(f"{features.shape[0]} {features.shape[1]} {labels.shape[1]}\n")
            for first in range(0, features.shape[0], _WRITTEN_ROWS):
                out.writelines(_as_lines(features, labels, first))
        beside.replace(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(str(path), reason, "a file that can be written") from error
    finally:
        beside.unlink(missing_ok=True)


class TextWriter:
    """Writes rows as they come; the header, which counts them, is filled in at the end.

    Args:
      path: the file, plain; whoever asks for it sees to it that it appears when it is whole.
    """

    def __init__(self, path: Path):
        self._stream = path.open("w", encoding="ascii", newline="\n")
        self._stream.write(" " * _HEADER_ROOM + "\n")
        self.rows = 0

    def append(self, features: csr_matrix, labels: csr_matrix) -> None:
        """Writes rows: CSR [n, d] and CSR [n, K], of any width up to the final ones."""
        for first in range(0, features.shape[0], _WRITTEN_ROWS):
            self._stream.writelines(_as_lines(features, labels, first))
        self.rows += features.shape[0]

    def finish(self, num_features: int, num_labels: int) -> None:
        """Writes the header and closes the file."""
        self._stream.seek(0)
        self._stream.write(f"{self.rows} {num_features} {num_labels}".ljust(_HEADER_ROOM))
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
    """The lines of the rows from `first` on, up to `_WRITTEN_ROWS` of them."""
    last = min(first + _WRITTEN_ROWS, features.shape[0])
    ends, label_ends = features.indptr[first : last + 1], labels.indptr[first : last + 1]
    part = slice(ends[0], ends[-1])
    # Counts repeat, so each value is put into words once; by its bits, which tell 0 from -0.
    bits = features.data[part].astype(np.float32).view(np.uint32)
    different, which = np.unique(bits, return_inverse=True)
    words = [_shortest(value) for value in different.view(np.float32)]
    ids = features.indices[part].tolist()
    entries = [f"{index}:{words[word]}" for index, word in zip(ids, which.tolist(), strict=True)]
    names = [str(label) for label in labels.indices[label_ends[0] : label_ends[-1]]]
    spans = pairwise((ends - ends[0]).tolist())
    label_spans = pairwise((label_ends - label_ends[0]).tolist())
    for (start, end), (label_start, label_end) in zip(spans, label_spans, strict=True):
        yield f"{','.join(names[label_start:label_end])} {' '.join(entries[start:end])}\n"


def _shortest(value: np.float32) -> str:
    whole = 1 <= abs(value) < 1e6 and value == int(value)
    return str(int(value)) if whole else str(value)
