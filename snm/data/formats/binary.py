"""Reads SciPy `.npz` CSR files and dense `.npy` files without pickle, and checks every entry.

A `.npz` is a zip of `.npy` members (`data`, `indices`, `indptr`, `shape`, `format`), which are read
whole; a `.npy` is read in chunks of rows. Errors count rows from 0, as NumPy does.
"""

from __future__ import annotations

import lzma
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from snm.errors import InputError
from snm.system.faults import describe_error, read_error

__all__ = [
    "DAMAGE",
    "damage_error",
    "iter_npy",
    "map_npy",
    "read_arrays",
    "read_npy",
    "read_npz",
]

_CHUNK_ROWS = 1 << 16
_DENSE_BYTES = 1 << 26  # of rows of a dense matrix that are converted at once
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


def damage_error(path: str | Path, error: Exception, found: str, expected: str) -> InputError:
    """The error for one of `DAMAGE`: the reason of the system, or `found` if it gives none."""
    reason = getattr(error, "strerror", None) or found
    return InputError(str(path), reason.lower(), expected)


@contextmanager
def _headers_unwarned() -> Iterator[None]:
    """Within it, NumPy takes a damaged header for one of Python 2 without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def map_npy(path: Path) -> NDArray[Any]:
    """Memory-maps a `.npy` file; its header has been compared with the size of the file.

    Raises:
      One of `DAMAGE`: no such file, no array, or one that ends early.
    """
    _refuse_long_header(path)
    with _headers_unwarned():
        return np.lib.format.open_memmap(path, mode="r")


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Reads the arrays of a `.npz` file of NumPy.

    Raises:
      One of `DAMAGE`: no such file, damage, or a member that is no array.
    """
    # Open the file here, because np.load does not close a damaged archive.
    with _headers_unwarned(), path.open("rb") as file, np.load(file, allow_pickle=False) as members:
        arrays = {name: members[name] for name in members.files}
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise TypeError("a member that is no array")  # NumPy returns its bytes
    return arrays


def read_npz(path: str | Path, *, noun: str = "feature", width: int | None = None) -> csr_matrix:
    """Reads a SciPy `.npz` CSR file, which must fit into memory.

    Args:
      path: a file that `scipy.sparse.save_npz` wrote, compressed or not.
      noun: what a column is, "feature" or "label". Values of labels must be 1.
      width: required number of columns; None accepts any.

    Returns:
      float32 CSR [n, columns] with sorted ids, without the values that are 0.

    Raises:
      InputError: no such file; a member that is missing or of another kind or size; a format other
        than CSR; row pointers that decrease or do not match; an id out of range or twice in a row;
        a value that is not finite. The message names the file, and the row if there is one.
    """
    path = Path(path)
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        raise read_error(path, error, "a SciPy .npz file") from error
    with archive:
        try:
            form = _read_member(path, archive, "format", "SU").reshape(-1).astype("U").tolist()
        except UnicodeDecodeError as error:
            raise InputError(str(path), "a format that is not text", "'csr'") from error
        if form != ["csr"]:
            expected = "'csr', which `.tocsr()` makes"
            raise InputError(str(path), f"format {ascii(form)[:40]}", expected)
        shape = _read_member(path, archive, "shape", "iu").reshape(-1)[:3].tolist()
        if len(shape) != 2 or not all(1 <= size < 2**31 for size in shape):
            raise InputError(str(path), f"shape {shape}", "two sizes from 1 to 2^31 - 1")
        rows, columns = shape
        if width is not None and columns != width:
            raise InputError(str(path), f"{columns} {noun}s", f"{width}")
        indptr, indices = (
            _read_member(path, archive, name, "iu").reshape(-1) for name in ("indptr", "indices")
        )
        data = _read_member(path, archive, "data", "biuf").reshape(-1)
    if indptr.size != rows + 1:
        found = f"{indptr.size} entries"
        raise InputError(f"{path}:indptr", found, f"{rows + 1} for {rows} rows")
    if indices.size != data.size:
        raise InputError(f"{path}:indices", f"{indices.size} entries", f"{data.size}, as in data")
    ends = indptr.astype(np.int64)
    if ends[0] != 0:
        raise InputError(f"{path}:indptr", f"{ends[0]} first", "0")
    if (wrong := np.flatnonzero((np.diff(ends) < 0) | (ends[1:] > data.size))).size:
        found = f"row pointers that decrease or pass the end at row {wrong[0]}"
        raise InputError(f"{path}:indptr", found, f"non-decreasing ones up to {data.size}")
    if ends[-1] != data.size:
        expected = f"{data.size}, the entries of data"
        raise InputError(f"{path}:indptr", f"{ends[-1]} last", expected)
    return _checked(path, noun, ends, indices, data, columns)


def _read_member(path: Path, archive: zipfile.ZipFile, name: str, kinds: str) -> NDArray[Any]:
    """Reads a scalar or one-dimensional `.npy` member of a zip.

    Args:
      path: the zip, for errors.
      archive: the same, open.
      name: name of the member.
      kinds: allowed NumPy dtype kinds, such as "iu".

    Raises:
      InputError: it is missing, damaged, no array or one of another kind.
    """
    where = f"{path}:{name}"
    if f"{name}.npy" not in archive.namelist():
        raise InputError(str(path), f"no member {name}", "a SciPy CSR matrix; a dense one is .npy")
    try:
        with _headers_unwarned(), archive.open(f"{name}.npy") as stream:
            array = np.lib.format.read_array(stream, allow_pickle=False)
            has_more = stream.read(1) != b""  # zipfile compares the CRC at the end
    except DAMAGE as error:
        reason = f"damaged data or no array ({describe_error(error)})"
        raise InputError(where, reason, "an intact .npy member") from error
    if array.dtype.kind not in kinds or array.ndim > 1:
        found = f"an array of {array.dtype} with {array.ndim} axes"
        raise InputError(where, found, "one axis of plain numbers")
    if has_more:
        raise InputError(where, "more data", f"{array.size} entries")
    return array


def _checked(
    path: Path,
    noun: str,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    data: NDArray[Any],
    columns: int,
) -> csr_matrix:
    """Checks ids and values, and returns them as float32 CSR with sorted ids."""

    def fail(entry: int, found: str, expected: str) -> None:
        row = int(np.searchsorted(indptr, entry, side="right")) - 1
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
        dense = map_npy(path)
    except DAMAGE as error:
        found = "no array that numpy reads without pickle"
        raise damage_error(path, error, found, "a .npy matrix of numbers") from error
    if dense.ndim != 2 or dense.dtype.kind not in "biuf":
        found = f"shape {dense.shape} of {dense.dtype}"
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
