"""The rows of a log: CSV, JSON lines or Parquet with a user and an item, and perhaps a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from snm.data.formats.detection import detect_all
from snm.data.formats.foreign import READERS, Records
from snm.data.formats.records import column_index, csv_rows, json_name, missing, numbered_lines
from snm.data.names import Spellings, normalize_spaces, original_spellings
from snm.errors import InputError
from snm.importing.logs.histories import Interaction
from snm.importing.logs.times import Disorder, Times
from snm.importing.options import InteractionsOptions, display_names

__all__ = ["read_interactions"]


def read_interactions(
    options: InteractionsOptions, known: Sequence[str], spellings: Spellings, disorder: Disorder
) -> Iterator[Interaction]:
    """The rows of the files.

    Args:
      options: of the import.
      known: the items of `--like`.
      spellings: makes the names of items.
      disorder: looks for times, where no column of times is given.

    Raises:
      InputError: a file that cannot be read, or a row without a user, an item or a time.
    """
    fields = (options.user, options.item) + ((options.time,) if options.time else ())
    time_of, spelled = Times(options.time, options.test_from), original_spellings(known)
    row = None
    form = detect_all(options.source, None)
    search = None if options.time else disorder
    rows = itertools.chain.from_iterable(
        _rows(path, form, fields, search) for path in options.source
    )
    for number, (where, values) in enumerate(rows):
        row = [
            normalize_spaces(values[0]),
            spellings.name(values[1]),
            *map(normalize_spaces, values[2:]),
        ]
        for field, value in zip(fields, row, strict=True):
            if not value:
                raise InputError(where, f"no value of {field!r}", "one in each row")
        if options.like is None and options.separator in row[1]:
            found = f"{options.separator!r} in the item {row[1][:40]!r}"
            raise InputError(where, found, "another --separator, which no item holds")
        time = time_of(where, row[2]) if options.time else number
        yield Interaction(row[0], spelled.get(row[1], row[1]), time)
    if row is None:
        raise InputError(display_names(options.source), "no interaction", "at least one")


def _rows(path: Path, form: str, fields: tuple[str, ...], disorder: Disorder | None) -> _Values:
    """The rows of a file of this format.

    Raises:
      InputError: another format than CSV and those of records, or a file that cannot be read.
    """
    if form == "csv":
        return _read_csv(path, fields, disorder)
    if (records := READERS[form].records) is not None:
        return _read_records(records, path, fields, disorder)
    found = f"no CSV, JSON lines or Parquet ({form})"
    raise InputError(str(path), found, "a user and an item a row")


_Values = Iterator[tuple[str, list[str]]]
"""The place of each row, and its values of some fields."""


def _read_csv(path: Path, fields: tuple[str, ...], disorder: Disorder | None) -> _Values:
    rows = csv_rows(path, numbered_lines(path), [fields])
    _, header = next(rows)
    expected = "the columns of --user, --item and --time"
    places = [column_index(path, field, header, expected) for field in fields]
    at = None
    for number, (where, row) in enumerate(rows):
        if disorder is not None:
            if not number:
                name = disorder.choose(dict(zip(header, row, strict=True)))
                at = None if name is None else header.index(name)
            if at is not None:
                disorder.add(row[places[0]], row[at])
        yield where, [row[place] for place in places]


def _read_records(
    records: Records, path: Path, fields: tuple[str, ...], disorder: Disorder | None
) -> _Values:
    expected = "texts or numbers in the fields of --user, --item and --time"
    columns, name = dict.fromkeys(fields, expected), None
    if disorder is not None and (first := next(records(path, None), None)) is not None:
        name = disorder.choose({field: str(value) for field, value in first[1].items()})
    if name is not None:
        columns[name] = expected
    for where, found in records(path, columns):
        values = []
        for field in fields:
            if field not in found:
                raise InputError(where, missing(found, field)[:200], expected)
            if (value := json_name(found[field])) is None:
                raise InputError(where, f"{field}: {found[field]!r}"[:200], expected)
            values.append(value)
        if disorder is not None and name is not None:
            disorder.add(values[0], str(found.get(name)))
        yield where, values
