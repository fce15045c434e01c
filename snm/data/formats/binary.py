"""Reads SciPy `.npz` CSR files and dense `.npy` files without pickle, and checks every entry.

A `.npz` is a zip of `.npy` members (`data`, `indices`, `indptr`, `shape`, `format`). The members
are read as streams, so memory is bounded by the rows of one chunk. Errors count rows from 0, as
NumPy does.
"""

from __future__ import annotations

import io
import lzma
import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from snm.errors import InputError
from snm.system.faults import read_error

__all__ = [
    "DAMAGE",
    "headers_unwarned",
    "iter_npy",
    "iter_npz",
    "npy_header",
    "read_npy",
    "read_npz",
]

_CHUNK_ROWS = 1 << 16
_DENSE_BYTES = 1 << 26  # of rows of a dense matrix that are converted at once
_HEADER_BYTES = 10_000  # NumPy's own limit, which it checks only after reading the header
# .npy version -> bytes of the header's length, parser
_HEADERS = {
    (1, 0): (2, np.lib.format.read_array_header_1_0),
    (2, 0): (4, np.lib.format.read_array_header_2_0),
    (3, 0): (4, np.lib.format.read_array_header_2_0),
}
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    TypeError,
    KeyError,
    AttributeError,
    SyntaxError,
    tokenize.TokenError,  # NumPy tokenizes a damaged header, as it may be one of Python 2
    MemoryError,  # a header that declares a huge size
    OverflowError,
)
"""What zipfile, zlib and NumPy raise on files that are damaged or of another format."""


@contextmanager
def headers_unwarned() -> Iterator[None]:
    """Within it, NumPy takes a damaged header for one of Python 2 without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Reads the header of a `.npy` file and stops at the first byte of its values.

    A damaged header can declare any size: callers check it before they allocate.

    Args:
      stream: the file, at its start.

    Returns:
      The declared shape and dtype.

    Raises:
      One of `DAMAGE`: this is no header.
    """
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f".npy version {version[0]}.{version[1]}")
    width, header = _HEADERS[version]
    length = stream.read(width)
    size = int.from_bytes(length, "little")
    if size > _HEADER_BYTES:
        raise ValueError(f"a header of {size} bytes")
    text = io.BytesIO(length + stream.read(size))
    with headers_unwarned():
        shape, _, dtype = header(text)
    return shape, dtype


class _Member:
    """A one-dimensional or scalar `.npy` member of a zip, read sequentially.

    Args:
      path: the zip, named in errors.
      stream: the member.
      name: name of the member, for errors.
      kinds: allowed NumPy dtype kinds, such as "iu".

    Attributes:
      where: path and member, for errors.
      shape: shape of the array.
      dtype: dtype of the array.
      size: number of entries.
    """

    def __init__(self, path: Path, stream: IO[bytes], name: str, kinds: str):
        self._path, self._stream, self._name = path, stream, name
        self.where = f"{path}:{name}"
        try:
            self.shape, self.dtype = npy_header(stream)
        except DAMAGE as error:
            raise InputError(self.where, f"no array ({error})", "a .npy member") from error
        if self.dtype.kind not in kinds or len(self.shape) > 1:
            found = f"an array of {self.dtype} with {len(self.shape)} axes"
            raise InputError(self.where, found, "one axis of plain numbers")
        self.size = math.prod(self.shape)

    def read(self, count: int) -> NDArray[Any]:
        """Reads the next `count` entries."""
        size = count * self.dtype.itemsize
        try:
            raw = self._stream.read(size)
        except DAMAGE as error:
            raise InputError(self.where, f"damaged data ({error})", "an intact file") from error
        if len(raw) != size:
            raise InputError(self.where, "the end of the data", f"{self.size} entries")
        return np.frombuffer(raw, self.dtype)

    def finish(self) -> None:
        """Reads to the end of the member, where zipfile checks its CRC."""
        try:
            rest = self._stream.read(1)
        except DAMAGE as error:
            raise InputError(self.where, f"damaged data ({error})", "an intact file") from error
        if rest:
            raise InputError(self.where, "more data", f"{self.size} entries")


def iter_npz(
    path: str | Path, chunk_rows: int, *, noun: str = "feature", width: int | None = None
) -> Iterator[csr_matrix]:
    """Reads the rows of a SciPy `.npz` CSR file in order, `chunk_rows` at a time.

    Args:
      path: a file that `scipy.sparse.save_npz` wrote, compressed or not.
      chunk_rows: rows of each piece; the last one may have fewer.
      noun: what a column is, "feature" or "label". Values of labels must be 1.
      width: required number of columns; None accepts any.

    Yields:
      float32 CSR [up to chunk_rows, columns] with sorted ids, without the values that are 0.

    Raises:
      InputError: no such file; a member that is missing or of another kind or size; a format other
        than CSR; row pointers that decrease or do not match; an id out of range or twice in a row;
        a value that is not finite. The message names the file, and the row if there is one.
    """
    path = Path(path)
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
        except DAMAGE as error:
            raise read_error(path, error, "a SciPy .npz file") from error

        def member(name: str, kinds: str) -> _Member:
            try:
                stream = stack.enter_context(archive.open(f"{name}.npy"))
            except KeyError as error:
                found = f"no member {name}"
                raise InputError(str(path), found, "a SciPy CSR matrix") from error
            except DAMAGE as error:
                raise InputError(f"{path}:{name}", f"damage ({error})", "an intact file") from error
            return _Member(path, stream, name, kinds)

        form = member("format", "SU")
        if form.size * form.dtype.itemsize > _HEADER_BYTES:
            raise InputError(form.where, f"{form.size} texts of {form.dtype}", "'csr'")
        try:
            kind = form.read(form.size).astype("U").tolist()
        except ValueError as error:  # bytes that are not text
            raise InputError(str(path), "a format that is not text", "'csr'") from error
        if kind != ["csr"]:
            expected = "'csr', which `.tocsr()` makes"
            raise InputError(str(path), f"format {ascii(kind)[:40]}", expected)
        shape_member = member("shape", "iu")
        shape = shape_member.read(min(shape_member.size, 3)).tolist()
        if len(shape) != 2 or not all(1 <= size < 2**31 for size in shape):
            raise InputError(str(path), f"shape {shape}", "two sizes from 1 to 2^31 - 1")
        rows, columns = shape
        if width is not None and columns != width:
            raise InputError(str(path), f"{columns} {noun}s", f"{width}")
        indptr, indices = member("indptr", "iu"), member("indices", "iu")
        data = member("data", "biuf")
        if indptr.size != rows + 1:
            raise InputError(indptr.where, f"{indptr.size} entries", f"{rows + 1} for {rows} rows")
        if indices.size != data.size:
            raise InputError(indices.where, f"{indices.size} entries", f"{data.size}, as in data")
        last = indptr.read(1).astype(np.int64)
        if last[0] != 0:
            raise InputError(indptr.where, f"{last[0]} first", "0")
        for first_row in range(0, rows, chunk_rows):
            taken = min(chunk_rows, rows - first_row)
            ends = np.concatenate([last, indptr.read(taken).astype(np.int64)])
            if (falls := np.flatnonzero(np.diff(ends) < 0)).size or ends[-1] > data.size:
                row = first_row + (int(falls[0]) if falls.size else taken - 1)
                found = f"row pointers that decrease or pass the end at row {row}"
                raise InputError(indptr.where, found, f"non-decreasing ones up to {data.size}")
            size = int(ends[-1] - ends[0])
            yield _checked(
                path, noun, first_row, ends - ends[0], indices.read(size), data.read(size), columns
            )
            last = ends[-1:]
        if last[0] != data.size:
            raise InputError(indptr.where, f"{last[0]} last", f"{data.size}, the entries of data")
        for stream in (indptr, indices, data):
            stream.finish()


def _checked(
    path: Path,
    noun: str,
    first_row: int,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    data: NDArray[Any],
    columns: int,
) -> csr_matrix:
    """Checks ids and values of some rows, and returns them as float32 CSR with sorted ids."""

    def fail(entry: int, found: str, expected: str) -> None:
        row = first_row + int(np.searchsorted(indptr, entry, side="right")) - 1
        raise InputError(str(path), f"row {row}: {found}", expected)

    if (bad := np.flatnonzero((indices < 0) | (indices >= columns))).size:
        found = f"{noun} index {indices[bad[0]]}"
        fail(int(bad[0]), found, f"an index from 0 to {columns - 1}")
    with np.errstate(over="ignore"):
        values = data.astype(np.float32)
    good = values == 1 if noun == "label" else np.isfinite(values)
    if (bad := np.flatnonzero(~good)).size:
        expected = "1 (a label is there or not)" if noun == "label" else "a finite float32 number"
        fail(int(bad[0]), f"value {data[bad[0]]}", expected)
    matrix = csr_matrix(
        (values, indices.astype(np.int32), indptr), shape=(len(indptr) - 1, columns)
    )
    matrix.sort_indices()
    again = np.zeros(matrix.nnz, bool)
    again[1:] = matrix.indices[1:] == matrix.indices[:-1]
    again[matrix.indptr[:-1][matrix.indptr[:-1] < matrix.nnz]] = False
    if (bad := np.flatnonzero(again)).size:
        fail(int(bad[0]), f"{noun} {matrix.indices[bad[0]]} twice", f"each {noun} once in a row")
    if not matrix.data.all():
        matrix.eliminate_zeros()
    return matrix


def read_npz(path: str | Path, *, noun: str = "feature") -> csr_matrix:
    """Reads a whole SciPy `.npz` CSR file as float32 CSR [n, columns]; see `iter_npz`."""
    return _concatenate(list(iter_npz(path, _CHUNK_ROWS, noun=noun)))


def iter_npy(
    path: str | Path, chunk_rows: int, *, width: int | None = None
) -> Iterator[csr_matrix]:
    """Reads the rows of a dense `.npy` matrix in order, `chunk_rows` at a time.

    Args:
      path: a two-dimensional array of plain numbers.
      chunk_rows: rows of each piece; the last one may have fewer.
      width: required number of columns; None accepts any.

    Yields:
      float32 CSR [up to chunk_rows, columns] of the entries that are not 0.

    Raises:
      InputError: no array, an array of another kind or shape, or a value that is not finite. The
        message names the file, and the row if there is one.
    """
    path = Path(path)
    try:
        _refuse_long_header(path)
        with headers_unwarned():
            dense = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        reason = getattr(error, "strerror", None) or "no array that numpy reads without pickle"
        raise InputError(str(path), reason.lower(), "a .npy matrix of numbers") from error
    if not isinstance(dense, np.ndarray) or dense.ndim != 2 or dense.dtype.kind not in "biuf":
        found = f"shape {getattr(dense, 'shape', None)} of {getattr(dense, 'dtype', 'archive')}"
        raise InputError(str(path), found, "a matrix of numbers, rows of features")
    if 0 in dense.shape:
        raise InputError(str(path), f"shape {dense.shape}", "at least one row and one column")
    if width is not None and dense.shape[1] != width:
        raise InputError(str(path), f"{dense.shape[1]} features", f"{width}")
    at_once = max(1, _DENSE_BYTES // (4 * dense.shape[1]))
    for first_row in range(0, dense.shape[0], chunk_rows):
        with np.errstate(over="ignore"):
            last_row = min(first_row + chunk_rows, dense.shape[0])
            pieces = [
                _sparse(path, dense, first, min(first + at_once, last_row))
                for first in range(first_row, last_row, at_once)
            ]
        yield _concatenate(pieces)


def _refuse_long_header(path: Path) -> None:
    """Refuses a length of the header beyond the file, for which numpy would allocate up to 4 GiB.

    Raises:
      ValueError: there is one.
    """
    with path.open("rb") as file:
        start = file.read(12)
    # Versions 2 and 3 give it in four bytes, version 1 in two.
    length = int.from_bytes(start[8:12], "little") if start[6:7] in (b"\2", b"\3") else 0
    if start.startswith(b"\x93NUMPY") and length > path.stat().st_size:
        raise ValueError(f"a header of {length} bytes")


def _sparse(path: Path, dense: NDArray[Any], first: int, last: int) -> csr_matrix:
    """Rows of a dense matrix as float32 CSR."""
    rows = np.asarray(dense[first:last]).astype(np.float32)
    if (bad := np.argwhere(~np.isfinite(rows))).size:
        row, column = bad[0]
        found = f"row {first + row}: value {dense[first + row, column]}"
        raise InputError(str(path), found, "a finite float32 number")
    return csr_matrix(rows)


def read_npy(path: str | Path) -> csr_matrix:
    """Reads a whole dense `.npy` matrix as float32 CSR [n, columns]; see `iter_npy`."""
    return _concatenate(list(iter_npy(path, _CHUNK_ROWS)))


def _concatenate(pieces: list[csr_matrix]) -> csr_matrix:
    """Stacks CSR matrices vertically; unlike `vstack`, it does not copy a single one."""
    return pieces[0] if len(pieces) == 1 else csr_matrix(vstack(pieces, "csr"))
