"""Reads the formats that `snm data import` converts, one row at a time.

`READERS` is the table of formats; `snm.data.formats` says how to add one. This module imports no
NumPy until a reader needs it, so that the command line can list the formats cheaply.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from snm.data.formats.label_lists import parse_list
from snm.data.formats.not_text import PARQUET
from snm.data.formats.parquet import read_parquet
from snm.data.formats.record_fields import labels_of, text_of, to_weight, weight_of
from snm.data.formats.records import (
    column_index,
    csv_rows,
    json_objects,
    numbered_lines,
    parse_number,
)
from snm.data.formats.split_files import HEADER, header_error
from snm.data.names import normalize_name
from snm.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "READERS",
    "ReadOptions",
    "Reader",
    "Records",
    "Row",
    "read_files",
    "read_rows",
]

_LABEL_PREFIX = "__label__"
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
        lines and Parquet may then be lists.
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

Records = Callable[[Path, Mapping[str, str] | None], Iterator[tuple[str, dict[str, Any]]]]
"""Yields the place, for messages, and the values by name of the points of a file, given the columns
that are wanted and what is expected of each (for messages); None stands for all."""


@dataclass(frozen=True)
class Reader:
    """One import format.

    Attributes:
      read: generator of the rows of a file; raises InputError at the first wrong line.
      suffixes: suffixes of lower-case file names, without `.gz`, by which `detect` recognizes it.
      matches: whether a first line looks like this format; tried by `detect` in table order.
      entries: whether rows hold `entries` instead of `text`.
      records: reads points as values by name; None if the format has no such points.
      magic: bytes with which a file begins that is no text; `detect` looks at them first.
      fields: whether `ReadOptions.text` and `weight` name fields of its points.
      separated: whether `ReadOptions.label_separator` separates its labels.
      label_lists: whether it heeds `ReadOptions.label_lists`.
      label_file: whether its labels are in `ReadOptions.label_file`.
      nothing: describes a file without points, for messages.
      title: what its points are called in messages; empty is the name of the format.
    """

    read: Callable[[Path, ReadOptions], Iterator[Row]]
    suffixes: tuple[str, ...] = ()
    matches: Callable[[str], bool] = lambda line: False
    entries: bool = False
    records: Records | None = None
    magic: bytes | None = None
    fields: bool = False
    separated: bool = False
    label_lists: bool = False
    label_file: bool = False
    nothing: str = "an empty file"
    title: str = ""


def read_rows(path: Path, form: str, options: ReadOptions = _DEFAULT_OPTIONS) -> Iterator[Row]:
    """Reads a file in bounded memory; the labels of each row are distinct names.

    Args:
      path: the file; `.gz` is unpacked.
      form: a key of `READERS`.
      options: of its reader.

    Raises:
      InputError: at the first wrong line, naming file and line; or after none.
    """
    return read_files([path], form, options)


def read_files(paths: Sequence[Path], form: str, options: ReadOptions) -> Iterator[Row]:
    """Reads files one after the other, as `read_rows` does; some may have no row, but not all.

    Args:
      paths: the files, one or more.
      form: a key of `READERS`, of all of them.
      options: of its reader.

    Raises:
      InputError: at the first wrong line, naming file and line; or after none.
    """
    row = None
    for path in paths:
        for row in READERS[form].read(path, options):
            yield row._replace(labels=options.distinct_names(row.labels))
    if row is None:
        raise InputError(str(paths[0]), READERS[form].nothing, "at least one point")


def _of_records(records: Records, path: Path, options: ReadOptions) -> Iterator[Row]:
    columns = dict.fromkeys(options.text, "the text's column, named with --text COLUMN")
    columns |= dict.fromkeys(options.labels, "the labels' column, named with --labels COLUMN")
    if options.weight is not None:
        columns[options.weight] = "the weights' column, named with --weight-column COLUMN"
    for where, record in records(path, columns):
        parts = [text_of(where, record, name, options.item_separator) for name in options.text]
        names = itertools.chain.from_iterable(
            labels_of(where, record, field) for field in options.labels
        )
        labels = tuple(map(str, names))
        weight = 1.0
        if options.weight is not None:
            weight = weight_of(where, record, options.weight)
        yield Row(where, options.join_texts(parts), None, labels, weight)


def _json_lines(
    path: Path, columns: Mapping[str, str] | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of JSON lines, of which each says for itself which fields it has."""
    return json_objects(path, numbered_lines(path))


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
        weight = 1.0 if weights is None else to_weight(where, header[weights], row[weights])
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
        if number == 1 and HEADER.fullmatch(line):
            raise header_error(path, line)
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
        functools.partial(_of_records, _json_lines),
        records=_json_lines,
        suffixes=(".jsonl", ".json"),
        matches=lambda line: line.lstrip().startswith("{") and _LABEL_PREFIX not in line,
        fields=True,
        title="JSON lines",
    ),
    "csv": Reader(
        _csv,
        suffixes=(".csv", ".tsv"),
        fields=True,
        separated=True,
        label_lists=True,
        nothing="no row after the header",
        title="CSV",
    ),
    "parquet": Reader(
        functools.partial(_of_records, read_parquet),
        records=read_parquet,
        magic=PARQUET,
        suffixes=(".parquet",),
        fields=True,
        nothing="no row",
        title="a Parquet file",
    ),
    "raw": Reader(_raw, separated=True, label_file=True, title="one text a line"),
    "fasttext": Reader(
        _fasttext, matches=lambda line: _LABEL_PREFIX in line, title="fastText lines"
    ),
    "svmlight": Reader(
        _svmlight,
        suffixes=(".svm", ".svmlight", ".libsvm"),
        matches=lambda line: re.match(r"\S+\s+\d+:\S+", line) is not None,
        entries=True,
        title="svmlight lines",
    ),
}
"""The import formats by name, in the order in which `detect` tries them."""
