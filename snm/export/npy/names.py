"""Label names that are read from a mapped file on demand, so that millions open at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snm.errors import InputError

__all__ = ["MappedNames", "line_starts"]


def line_starts(path: Path) -> NDArray[np.int64]:
    """The offsets at which lines start, and the end of the last one: int64 [lines + 1]."""
    raw = np.fromfile(path, np.uint8)
    return np.concatenate([[0], np.flatnonzero(raw == ord("\n")) + 1]).astype(np.int64)


class MappedNames(Sequence[str]):
    """The lines of a file that is mapped into memory.

    Args:
      path: a UTF-8 text, a name a line, each line ended.
      starts: int64 [K + 1], `line_starts` of the file.

    Raises:
      InputError: the starts belong to another file.
    """

    def __init__(self, path: Path, starts: NDArray[np.int64]):
        self._raw, self._starts = np.memmap(path, np.uint8, "r"), starts
        if int(starts[0]) != 0 or int(starts[-1]) != self._raw.size:
            raise InputError(str(path), f"{self._raw.size} bytes", "what `snm export` wrote")

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return tuple(self[i] for i in range(*number.indices(len(self))))
        number = range(len(self))[number]
        line = self._raw[self._starts[number] : self._starts[number + 1] - 1]
        return line.tobytes().decode().removesuffix("\r")

    def __iter__(self) -> Iterator[str]:
        lines = self._raw.tobytes().decode().split("\n")[:-1]
        return (line.removesuffix("\r") for line in lines)
