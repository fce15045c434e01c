"""Reads the formats that `snm data import` converts, one row at a time.

`READERS` is the table of formats; `snm.data.formats` says how to add one. This module imports no
NumPy until a reader needs it, so that the command line can list the formats cheaply.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from snm.data.formats.label_lists import parse_list
from snm.data.formats.records import (
    column_index,
    csv_rows,
    get_text,
    json_objects,
    missing,
    numbered_lines,
    parse_number,
)
from snm.data.formats.split_files import HEADER, SplitFiles
from snm.data.names import normalize_name
from snm.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "READERS",
    "SEPARATORS",
    "ReadOptions",
    "Reader",
    "Row",
    "detect",
    "read_rows",
    "recognize",
    "recognize_name",
]

SEPARATORS = ";|,"
"""Usual separators of labels; a text that contains one is not accepted as a single label."""
_LABEL_PREFIX = "__label__"
_LARGEST_WEIGHT = 3e38  # below the largest float32
_ENTRY = re.compile(r"(\d{1,16}):(\S+)")


class Row(NamedTuple):
    """One point of an import file.

    Attributes:
      where: file and line, for error messages.
      text: the text, or None if the format holds numbers (`entries`).
      entries: feature ids, int64 [n] ascending, and values, float32 [n]; None for texts.
      labels: names of its labels, as the file spells them where a reader yields a row; `read_rows`
        leaves each name once, as `ReadOptions.distinct_names` does.
      weight: factor of the loss of the point, at least 0.
    """

    where: str
    text: str | None
    entries: tuple[NDArray[np.int64], NDArray[np.float32]] | None
    labels: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of the readers; each reader uses those that its format needs.

    Attributes:
      text: names of the fields of the text; several are joined by a space.
      labels: names of the fields of the labels; those of several are joined.
      label_separator: separator between labels; None is the format's default, a comma in CSV and
        white space in raw text.
      label_lists: those of `labels` in CSV of which each cell is a list, as `parse_list` reads it.
      label_file: file with the labels of raw text, one line per text.
      weight: name of the field of the weight of a point; None is 1 for all.
      item_separator: the character between items, if texts are lists of items; fields of JSON
        lines may then be lists.
      name: normalizes the name of a label.
    """

    text: tuple[str, ...] = ("text",)
    labels: tuple[str, ...] = ("labels",)
    label_separator: str | None = None
    label_lists: Collection[str] = ()
    label_file: Path | None = None
    weight: str | None = None
    item_separator: str | None = None
    name: Callable[[str], str] = normalize_name

    def join_texts(self, parts: Iterable[str]) -> str:
        """Joins the texts of a point."""
        return (self.item_separator or " ").join(parts)

    def distinct_names(self, spellings: Iterable[str]) -> tuple[str, ...]:
        """The distinct names of labels in order of first occurrence, without empty ones."""
        return tuple(filter(None, dict.fromkeys(map(self.name, spellings))))


_DEFAULT_OPTIONS = ReadOptions()


@dataclass(frozen=True)
class Reader:
    """One import format.

    Attributes:
      read: generator of the rows of a file; raises InputError at the first wrong line.
      suffixes: suffixes of lower-case file names, without `.gz`, by which `detect` recognises it.
      matches: whether a first line looks like this format; tried by `detect` in table order.
      entries: whether rows hold `entries` instead of `text`.
      fields: whether `ReadOptions.text` and `weight` name fields of its points.
      separated: whether `ReadOptions.label_separator` separates its labels.
      label_lists: whether it heeds `ReadOptions.label_lists`.
      label_file: whether its labels are in `ReadOptions.label_file`.
      nothing: describes a file without points, for messages.
    """

    read: Callable[[Path, ReadOptions], Iterator[Row]]
    suffixes: tuple[str, ...] = ()
    matches: Callable[[str], bool] = lambda line: False
    entries: bool = False
    fields: bool = False
    separated: bool = False
    label_lists: bool = False
    label_file: bool = False
    nothing: str = "an empty file"


def recognize(path: Path, first: str) -> str | None:
    """The format that a file has by its suffix, or by its first line; None if it is none."""
    return recognize_name(path) or _by_line(first)


def recognize_name(path: Path) -> str | None:
    """The format that a file has by its suffix; None if it is none."""
    file_name = path.name.removesuffix(".gz").lower()
    names = (name for name, reader in READERS.items() if file_name.endswith(reader.suffixes))
    return next(names, None)


def _by_line(first: str) -> str | None:
    return next((name for name, reader in READERS.items() if reader.matches(first)), None)


def detect(path: Path, label_file: Path | None) -> str:
    """Names the format of a file: by its suffix, then by its first line.

    Raises:
      InputError: neither identifies a format, and there is no label file (which only raw text has).
    """
    if (name := recognize_name(path)) is not None:
        return name
    first = next(numbered_lines(path), (1, ""))[1]
    if (name := _by_line(first)) is not None:
        return name
    if label_file is not None:
        return next(name for name, reader in READERS.items() if reader.label_file)
    found = f"a first line {first[:40]!a}"
    if HEADER.fullmatch(first):
        expected = "a folder with it as train.txt, which needs no import (or --format)"
        if (split := SplitFiles.beside(path)) is not None:
            expected = f"`{split.command}`, as {split.train.name} has the training points"
        raise InputError(str(path), f"{found}, a header of features", expected)
    raise InputError(str(path), found, f"--format, one of {', '.join(READERS)}")


def read_rows(path: Path, form: str, options: ReadOptions = _DEFAULT_OPTIONS) -> Iterator[Row]:
    """Reads a file in bounded memory; the labels of each row are distinct names.

    Args:
      path: the file; `.gz` is unpacked.
      form: a key of `READERS`.
      options: of its reader.

    Raises:
      InputError: at the first wrong line, naming file and line; or after none.
    """
    row = None
    for row in READERS[form].read(path, options):
        yield row._replace(labels=options.distinct_names(row.labels))
    if row is None:
        raise InputError(str(path), READERS[form].nothing, "at least one point")


def _weight(where: str, field: str, value: object) -> float:
    """The weight that a field says.

    Raises:
      InputError: no finite number of at least 0.
    """
    number = parse_number(str(value)) if type(value) in (str, int, float) else math.nan
    if not 0 <= number <= _LARGEST_WEIGHT:
        expected = "a finite number of at least 0 (see --weight-column)"
        raise InputError(where, f"{field}: {ascii(value)[:40]}", expected)
    return number


def _jsonl(path: Path, options: ReadOptions) -> Iterator[Row]:
    for where, record in json_objects(path, numbered_lines(path)):
        parts = [_text(where, record, field, options) for field in options.text]
        names: list[Any] = []
        for field in options.labels:
            names += _labels(where, record, field)
        weight = 1.0
        if options.weight is not None:
            if options.weight not in record:
                expected = f"a weight in {options.weight!r} (see --weight-column)"
                raise InputError(where, missing(record, options.weight)[:200], expected)
            weight = _weight(where, options.weight, record[options.weight])
        yield Row(where, options.join_texts(parts), None, tuple(map(str, names)), weight)


def _text(where: str, record: dict[str, Any], field: str, options: ReadOptions) -> str:
    expected = "the text's field, named with --text FIELD"
    if field in record:
        expected = f"a text in {field!r} (see --text)"
    if isinstance(record.get(field), list):
        expected += ", or --same-items for lists of items"
    return get_text(where, record, field, options.item_separator, expected)


def _labels(where: str, record: dict[str, Any], field: str) -> list[Any]:
    """The labels in a field of an object: a list or a single label; `null` is no label.

    Raises:
      InputError: the field is missing or has another type.
    """
    if field not in record:
        expected = "the labels' field, named with --labels FIELD"
        raise InputError(where, missing(record, field)[:200], expected)
    value, shown = record[field], json.dumps(field, ensure_ascii=False)
    if isinstance(value, str) and (marks := set(SEPARATORS) & set(value)):
        parts = parse_list(value) or [part.strip() for part in re.split(f"[{SEPARATORS}]", value)]
        parts = list(filter(None, parts))
        parts = parts if len(parts) > 1 else ["a", "b"]
        several, one = (json.dumps(names, ensure_ascii=False) for names in (parts, [value]))
        expected = f"a list: {several} for several labels, {one} for one"
        if len(expected) > _MAX_EXAMPLE:
            expected = f'a list such as {shown}: ["a", "b"]'
        mark = next(mark for mark in value if mark in marks)
        raise InputError(where, f"a text with {mark!r} in {shown}", expected)
    names = value if isinstance(value, list) else [] if value is None else [value]
    for name in names:
        if type(name) not in (str, int):
            place = f"the list {shown}" if isinstance(value, list) else shown
            expected = f'{shown}: ["a", "b"], or whole numbers such as [3, 17]'
            raise InputError(where, f"{_kind(name)} in {place}", expected)
    return names


_MAX_EXAMPLE = 120  # characters of an example in a message


def _kind(value: object) -> str:
    """The kind of a JSON value, for messages."""
    if isinstance(value, float):
        return f"{value!r}, a decimal number,"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value)  # true, false or null


def _csv(path: Path, options: ReadOptions) -> Iterator[Row]:
    rows = csv_rows(path, numbered_lines(path), [(*options.text, *options.labels)])
    _, header = next(rows)

    def column(field: str, what: str, flag: str) -> int:
        return column_index(path, field, header, f"the {what} column, named with {flag} COLUMN")

    texts = [column(field, "text's", "--text") for field in options.text]
    labels = [(field, column(field, "labels'", "--labels")) for field in options.labels]
    weights = None
    if options.weight is not None:
        weights = column(options.weight, "weights'", "--weight-column")
    for where, row in rows:
        text = options.join_texts([row[index] for index in texts])
        spellings: list[str] = []
        for field, index in labels:
            spellings += _split_cell(where, field, row[index], options)
        weight = 1.0 if weights is None else _weight(where, header[weights], row[weights])
        yield Row(where, text, None, tuple(spellings), weight)


def _split_cell(where: str, field: str, cell: str, options: ReadOptions) -> list[str]:
    """The labels of a cell of CSV.

    Raises:
      InputError: a text among lists.
    """
    if field not in options.label_lists:
        return cell.split(options.label_separator or ",")
    names = parse_list(cell) if cell.strip() else []
    if names is None:
        expected = 'a list of labels such as ["a", "b"], as in the first rows, or --label-separator'
        raise InputError(where, f"{field}: {ascii(cell)[:60]}", expected)
    return names


def _raw(path: Path, options: ReadOptions) -> Iterator[Row]:
    label_file, separator = options.label_file, options.label_separator
    if label_file is None:
        expected = "a file with the labels of raw text, a line a text"
        raise InputError("--label-file", "none", expected)
    pairs = itertools.zip_longest(numbered_lines(path), numbered_lines(label_file))
    for text, names in pairs:
        if text is None or names is None:
            short, longer = (path, names) if text is None else (label_file, text)
            assert longer is not None
            found = f"the end of the file before line {longer[0]}"
            raise InputError(str(short), found, f"as many lines as in {path} and {label_file}")
        yield Row(f"{path}:{text[0]}", text[1], None, tuple(names[1].split(separator)))


def _fasttext(path: Path, options: ReadOptions) -> Iterator[Row]:
    for number, line in numbered_lines(path):
        words = line.split()
        if not words:
            continue
        names = tuple(
            word.removeprefix(_LABEL_PREFIX) for word in words if word.startswith(_LABEL_PREFIX)
        )
        text = " ".join(word for word in words if not word.startswith(_LABEL_PREFIX))
        if not any(_LABEL_PREFIX in word for word in words) and number == 1:
            found = f"a line without {_LABEL_PREFIX}"
            raise InputError(f"{path}:{number}", found, f"`{_LABEL_PREFIX}NAME ... words`")
        yield Row(f"{path}:{number}", text, None, names)


def _svmlight(path: Path, options: ReadOptions) -> Iterator[Row]:
    import numpy as np

    for number, line in numbered_lines(path):
        line = line.partition("#")[0].rstrip()
        if not line:
            continue
        where = f"{path}:{number}"
        front, *rest = line.split()
        if ":" in front:
            front, rest = "", [front, *rest]  # a point without labels
        ids, values = [], []
        for token in rest:
            match = _ENTRY.fullmatch(token)
            if match is None:
                raise InputError(where, ascii(token[:40]), "a pair feature:value")
            ids.append(int(match[1]))
            values.append(parse_number(match[2]))
            if math.isnan(values[-1]):
                raise InputError(where, ascii(token[:40]), "a finite number after the colon")
        features, weights = np.asarray(ids, np.int64), np.asarray(values, np.float32)
        if not np.isfinite(weights).all():
            raise InputError(where, "a value that is not finite", "finite float32 numbers")
        order = np.argsort(features, kind="stable")
        if len(order) and (np.diff(features[order]) == 0).any():
            raise InputError(where, "a feature twice", "each feature once in a row")
        names = tuple(front.split(","))
        yield Row(where, None, (features[order], weights[order]), names)


READERS: dict[str, Reader] = {
    "jsonl": Reader(
        _jsonl,
        suffixes=(".jsonl", ".json"),
        matches=lambda line: line.lstrip().startswith("{") and _LABEL_PREFIX not in line,
        fields=True,
    ),
    "csv": Reader(
        _csv,
        suffixes=(".csv", ".tsv"),
        fields=True,
        separated=True,
        label_lists=True,
        nothing="no row after the header",
    ),
    "raw": Reader(_raw, separated=True, label_file=True),
    "fasttext": Reader(_fasttext, matches=lambda line: _LABEL_PREFIX in line),
    "svmlight": Reader(
        _svmlight,
        suffixes=(".svm", ".svmlight", ".libsvm"),
        matches=lambda line: re.match(r"\S+\s+\d+:\S+", line) is not None,
        entries=True,
    ),
}
"""The import formats by name, in the order in which `detect` tries them."""
