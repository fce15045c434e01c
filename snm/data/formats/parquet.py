"""Reads rows of Parquet files as records: a place for messages, and values by column.

Nothing in a file is executed: of a type that another program added, its plain storage is read, or
the column is refused. This module imports pyarrow where it reads, as the command line lists the
formats that build on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from snm.data.formats.gzipped import unreadable
from snm.data.formats.not_text import GZIP
from snm.data.formats.records import find_column
from snm.errors import InputError
from snm.system.faults import is_out_of_memory
from snm.system.imports import requires_extra
from snm.text import first_line

__all__ = ["read_parquet"]

_MARK, _ENCRYPTED = b"PAR1", b"PARE"  # at both ends of a file
_ROWS = 1024  # of a batch; texts may be long
_BUFFER = 1 << 18  # bytes of a column that are read at once
_INTACT = "an intact file"


def read_parquet(
    path: Path, columns: Mapping[str, str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (file and row from 1, values by column) of each row, in bounded memory.

    Values are what JSON has: texts, numbers, booleans, None, lists and dicts of these. Dates and
    times are their texts in ISO 8601, those with a zone in UTC.

    Args:
      path: the file.
      columns: those that are read, and what is expected if one is missing, for messages. None
        reads all, except those of other types, such as bytes; at least one must be left.

    Raises:
      InputError: pyarrow is missing, a file that cannot be read, a column that is missing, twice
        there or of another type, or bytes in a text that are not UTF-8.
    """
    with requires_extra(str(path), "parquet", "pyarrow"):
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile

    try:
        _check_ends(path)
        # No file of Python's: a thread of pyarrow that frees what it read of one ends the process
        # with SIGABRT if Python is at its end by then. `pre_buffer`, or no buffer, would read the
        # whole column of a row group at once.
        options: Any = dict(pre_buffer=False, buffer_size=_BUFFER, page_checksum_verification=True)
        with (
            pa.OSFile(os.fsencode(path)) as stream,
            ParquetFile(stream, **options) as file,
        ):
            names = _choose_columns(path, file.schema_arrow, columns)
            number = 0
            for batch in file.iter_batches(_ROWS, columns=names, use_threads=False):
                values = [_values(path, number, name, batch.column(name)) for name in names]
                for row in zip(*values, strict=True):
                    number += 1
                    yield f"{path}: row {number}", dict(zip(names, row, strict=True))
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        if is_out_of_memory(error):
            raise
        raise _damage(path, error) from error


def _check_ends(path: Path) -> None:
    """Refuses what does not begin and end as Parquet files do.

    Raises:
      InputError: it is a pipe or another file, is encrypted, or has lost its end.
      OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        if not stream.seekable():
            raise InputError(str(path), "a pipe", "a file: Parquet is read from its end")
        first = stream.read(20)
        stream.seek(-min(len(_MARK), len(first)), os.SEEK_END)
        last = stream.read()
    if _ENCRYPTED in (first[: len(_MARK)], last):
        raise _of_encrypted(path)
    if first.startswith(GZIP):
        expected = "the Parquet file in it, which `gunzip` unpacks"
        raise InputError(str(path), "gzip data", expected)
    if not first.startswith(_MARK):
        found = f"a file that begins with {first!a}" if first else "an empty file"
        raise InputError(str(path), found, "a Parquet file")
    if last != _MARK:
        raise InputError(str(path), "a truncated Parquet file", "a complete file")


def _of_encrypted(path: Path) -> InputError:
    return InputError(str(path), "an encrypted Parquet file", "one that is not encrypted")


def _damage(path: Path, error: Exception) -> InputError:
    """The error of a file that pyarrow cannot read."""
    if isinstance(error, OSError) and error.errno is not None:
        return unreadable(path, error)
    reason = first_line(error)
    if "crypt" in reason:  # single columns may be encrypted
        return _of_encrypted(path)
    return InputError(str(path), f"damaged Parquet data ({reason})", _INTACT)


def _choose_columns(path: Path, schema: Any, columns: Mapping[str, str] | None) -> list[str]:
    """The names of the columns to read.

    Raises:
      InputError: a column is missing, twice there or of another type.
    """
    if columns is None:
        plain = [one.name for one in schema if _is_plain(one.type)]
        columns = dict.fromkeys(plain or schema.names, "")  # without any, the first is refused
    for name, expected in columns.items():
        kind = schema.types[find_column(str(path), name, schema.names, expected)]
        if not _is_plain(kind):
            expected = "texts, numbers, dates, or lists of texts or numbers"
            raise InputError(str(path), f"column {name!r} of {kind}", expected)
    return list(columns)


def _is_plain(kind: Any) -> bool:
    """Whether JSON has the values of a type, or their texts."""
    from pyarrow import types

    others = (types.is_decimal, types.is_timestamp, types.is_date)
    return _is_of_json(kind) or any(is_other(kind) for is_other in others)


def _is_of_json(kind: Any) -> bool:
    """Whether JSON has the values of a type: texts, numbers, booleans, null, lists or objects."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_of_json(kind.value_type)
    if types.is_struct(kind):
        return all(_is_of_json(kind.field(index).type) for index in range(kind.num_fields))
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if any(is_list(kind) for is_list in lists):
        return _is_of_json(kind.value_type)
    plain = (types.is_string, types.is_large_string, types.is_string_view, types.is_integer,
             types.is_floating, types.is_boolean, types.is_null)  # fmt: skip
    return any(is_plain(kind) for is_plain in plain)


def _values(path: Path, before: int, name: str, column: Any) -> list[Any]:
    """The values of a column of a batch.

    Args:
      path: the file, for messages.
      before: number of rows before the batch.
      name: of the column.
      column: an array of pyarrow, of a type that `_is_plain`.

    Raises:
      InputError: a value that Python cannot hold.
    """
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        if column.type.scale <= 0:  # whole numbers, as data warehouses keep ids
            return [None if value is None else int(value) for value in column.to_pylist()]
        column = column.cast(pa.float64())
    if is_time := pa.types.is_timestamp(column.type):
        # Python has no nanoseconds. The values are in UTC, whatever zone shows them.
        column = column.cast(pa.timestamp("us", "UTC" if column.type.tz else None), safe=False)
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError) as error:
        raise _of_value(path, before, name, column) from error
    if is_time or pa.types.is_date(column.type):
        return [None if value is None else value.isoformat() for value in values]
    return list(values)


def _of_value(path: Path, before: int, name: str, column: Any) -> InputError:
    """The error of the first value of a column that Python cannot hold."""
    for number, value in enumerate(column, before + 1):
        try:
            value.as_py()
        except UnicodeDecodeError as error:
            wrong = error.object[error.start : error.start + 8]
            where, found = f"{path}: row {number}", f"bytes that are not UTF-8 ({wrong!a})"
            return InputError(where, f"{found} in {name!r}", "UTF-8")
        except (ValueError, OverflowError) as error:
            found = f"{name}: {first_line(error)}"
            return InputError(f"{path}: row {number}", found, "a date of the years 1 to 9999")
    return InputError(str(path), f"damaged data in {name!r}", _INTACT)
