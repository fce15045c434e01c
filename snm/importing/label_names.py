"""Names of numbered labels, from a file whose line i, counted from 0, is the name of label i."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from snm.data.formats.detection import detect
from snm.data.formats.foreign import READERS, Row
from snm.data.formats.records import column_index, csv_rows, get_field, numbered_lines
from snm.data.names import normalize_name
from snm.errors import InputError

if TYPE_CHECKING:
    from snm.importing.passes import OnProgress

__all__ = ["LabelNames", "read_label_names", "with_names"]

_FLAG = "--label-name-field"


class LabelNames(NamedTuple):
    """The names of numbered labels.

    Attributes:
      path: their file.
      names: K distinct names, by label number.
      numbered: the names to which the label number was appended.
    """

    path: Path
    names: Sequence[str]
    numbered: Sequence[str]


def read_label_names(
    path: Path, field: str | None, default_field: str, on_progress: OnProgress
) -> LabelNames:
    """Reads a name for each label, one label at a time.

    White space in a name becomes single spaces. Names must be distinct, so the label number is
    appended to a text that is empty or that an earlier label has: `Candle (12)`.

    Args:
      path: JSON lines, CSV, Parquet, or plain text with one label per line; `.gz` is unpacked.
        Empty lines count as labels in plain text only.
      field: the field of JSON lines, or column of CSV or Parquet, with the text of a label; None is
        `default_field`.
      default_field: the field if none is given.
      on_progress: called with the number of labels read so far.

    Raises:
      InputError: the file cannot be read, a label lacks the field, `field` is given for plain
        text, or there is no label.
    """
    taken: dict[str, None] = {}  # a set in order
    numbered = []
    for label, text in enumerate(_texts(path, field, default_field)):
        name = normalized = normalize_name(text)
        while not name or name in taken:
            name = f"{name} ({label})".lstrip()
        if name != normalized:
            numbered.append(name)
        taken[name] = None
        on_progress(label + 1)
    if not taken:
        raise InputError(str(path), "no label", "the text of one label per line")
    return LabelNames(path, tuple(taken), numbered)


def _texts(path: Path, field: str | None, default_field: str) -> Iterator[str]:
    """The text of each label."""
    form, name = detect(path, label_file=path), field or default_field
    if (records := READERS[form].records) is not None:
        for where, record in records(path, {name: f"the column of {_FLAG}"}):
            yield get_field(where, record, name, f"a text in {name!r} (see {_FLAG})")
    elif form == "csv":
        rows = csv_rows(path, numbered_lines(path), [(name,)])
        column = column_index(path, name, next(rows)[1], f"the column of {_FLAG}")
        for _, row in rows:
            yield row[column]
    elif field is not None:
        raise InputError(_FLAG, f"{path}, a file without fields", "CSV, JSON lines or Parquet")
    else:
        for _, line in numbered_lines(path):
            yield line


def with_names(rows: Iterator[Row], labels: LabelNames) -> Iterator[Row]:
    """The rows, with their label numbers replaced by names.

    Args:
      rows: rows whose labels are numbers.
      labels: the names.

    Raises:
      InputError: a label that is not the number of a name.
    """
    for row in rows:
        names = [labels.names[_parse_label(row.where, label, labels)] for label in row.labels]
        yield row._replace(labels=tuple(dict.fromkeys(names)))


def _parse_label(where: str, label: str, labels: LabelNames) -> int:
    """The number of a label."""
    number = int(label) if re.fullmatch("[0-9]{1,16}", label) else len(labels.names)
    if number >= len(labels.names):
        expected = f"a whole number from 0 to {len(labels.names) - 1}, a label of {labels.path}"
        raise InputError(where, f"label {ascii(label)[:40]}", expected)
    return number
