"""Labels that are numbers, and the file that names them: its line i, from 0, is label i."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from snm.data.formats.foreign import Row, detect, numbered_lines
from snm.data.formats.records import csv_rows, json_objects, place_of, value_of
from snm.data.names import one_name
from snm.errors import InputError

if TYPE_CHECKING:
    from snm.data.conversion.passes import OnProgress

__all__ = ["LabelNames", "read_label_names", "with_names"]

_FLAG = "--label-name-field"


class LabelNames(NamedTuple):
    """The names of numbered labels.

    Attributes:
      path: the file that they are from.
      names: K different names, by label number.
      numbered: those of them that end with the number of their label.
    """

    path: Path
    names: Sequence[str]
    numbered: Sequence[str]


def read_label_names(
    path: Path, field: str | None, default_field: str, on_progress: OnProgress
) -> LabelNames:
    """Reads a name for each label, one label at a time.

    White space in a name becomes single blanks. Names tell labels apart, so that a text that an
    earlier label has, or that is empty, is followed by the number of its label: `Candle (12)`.

    Args:
      path: JSON lines, CSV, or plain text with one label per line; `.gz` is unpacked. Empty lines
        count as labels in plain text only.
      field: the field of JSON lines, or column of CSV, that holds the text of a label; None is
        `default_field`.
      default_field: the field where none is asked for.
      on_progress: called with the number of labels that are done.

    Raises:
      InputError: a file that cannot be read, a label without the field, a field of plain text, or
        no label.
    """
    taken: dict[str, None] = {}  # a set in order
    numbered = []
    for label, text in enumerate(_texts(path, field, default_field)):
        name = plain = one_name(text)
        while not name or name in taken:
            name = f"{name} ({label})".lstrip()
        if name != plain:
            numbered.append(name)
        taken[name] = None
        on_progress(label + 1)
    if not taken:
        raise InputError(str(path), "no label", "the text of one label per line")
    return LabelNames(path, tuple(taken), numbered)


def _texts(path: Path, field: str | None, default_field: str) -> Iterator[str]:
    """The text of each label."""
    form, name = detect(path, label_file=path), field or default_field
    if form == "jsonl":
        for where, found in json_objects(path, numbered_lines(path)):
            yield value_of(where, found, name, "", f"a text in {name!r} (see {_FLAG})")
    elif form == "csv":
        rows = csv_rows(path, numbered_lines(path))
        column = place_of(path, name, next(rows)[1], f"the column of {_FLAG}")
        for _, row in rows:
            yield row[column]
    elif field is not None:
        raise InputError(_FLAG, f"{path}, a file without fields", "JSON lines or CSV")
    else:
        for _, line in numbered_lines(path):
            yield line


def with_names(rows: Iterator[Row], labels: LabelNames) -> Iterator[Row]:
    """The rows, with names for the numbers that their labels are.

    Args:
      rows: rows whose labels are numbers.
      labels: the names.

    Raises:
      InputError: a label that is not the number of a name.
    """
    for row in rows:
        names = [labels.names[_number(row.where, found, labels)] for found in row.labels]
        yield row._replace(labels=tuple(dict.fromkeys(names)))


def _number(where: str, found: str, labels: LabelNames) -> int:
    """The number that a label is."""
    number = int(found) if re.fullmatch("[0-9]{1,16}", found) else len(labels.names)
    if number >= len(labels.names):
        expected = f"a whole number from 0 to {len(labels.names) - 1}, a label of {labels.path}"
        raise InputError(where, f"label {ascii(found)[:40]}", expected)
    return number
