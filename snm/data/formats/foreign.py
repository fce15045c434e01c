"""Rows of the formats that others write, one at a time: (where, content, labels)."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from snm.data.formats.gzipped import UNREADABLE, open_bytes, unreadable
from snm.errors import InputError

__all__ = ["FORMATS", "Row", "detect", "read_rows", "read_texts"]

FORMATS = ("jsonl", "csv", "raw", "fasttext", "svmlight")
_LABEL = "__label__"
_ENTRY = re.compile(r"(\d{1,16}):(\S+)")
_LONGEST_FIELD = 1 << 28


class Row(NamedTuple):
    """One point.

    Attributes:
      where: file and line.
      text: its text, or None in svmlight.
      entries: ids and values in svmlight, int64 [n] and float32 [n], else None.
      labels: names, each once.
    """

    where: str
    text: str | None
    entries: tuple[np.ndarray, np.ndarray] | None
    labels: tuple[str, ...]


def detect(path: Path, label_file: Path | None) -> str:
    """The format of a file, by its name and its first line.

    Raises:
      InputError: nothing speaks for any of them.
    """
    name = path.name.removesuffix(".gz").lower()
    if name.endswith((".jsonl", ".json")):
        return "jsonl"
    if name.endswith((".csv", ".tsv")):
        return "csv"
    if name.endswith((".svm", ".svmlight", ".libsvm")):
        return "svmlight"
    first = next(_lines(path), (1, ""))[1]
    if _LABEL in first:
        return "fasttext"
    if first.lstrip().startswith("{"):
        return "jsonl"
    if re.match(r"\S+\s+\d+:\S+", first):
        return "svmlight"
    if label_file is not None:
        return "raw"
    found = f"a first line {first[:40]!a}"
    raise InputError(str(path), found, f"--format, one of {', '.join(FORMATS)}")


def read_rows(
    path: Path,
    form: str,
    *,
    text: tuple[str, ...] = ("text",),
    labels: str = "labels",
    label_separator: str | None = None,
    label_file: Path | None = None,
) -> Iterator[Row]:
    """Reads a file in bounded memory.

    Args:
      path: the file; `.gz` is unpacked.
      form: one of `FORMATS`.
      text: fields of the text, joined by a space.
      labels: field of the labels.
      label_separator: between labels; None is a comma in CSV, white space in raw text.
      label_file: labels of raw text.

    Raises:
      InputError: at the first line that is wrong, naming it.
    """
    if form == "raw":
        if label_file is None:
            raise InputError("--label-file", "none", "the labels of raw text, a line a text")
        return _raw(path, label_file, label_separator)
    readers: dict[str, Callable[[], Iterator[Row]]] = {
        "jsonl": lambda: _jsonl(path, text, labels),
        "csv": lambda: _csv(path, text, labels, label_separator or ","),
        "fasttext": lambda: _fasttext(path),
        "svmlight": lambda: _svmlight(path),
    }
    return readers[form]()


def read_texts(path: Path) -> Iterator[str]:
    """Reads texts without labels: the `text` of JSON lines, else each line.

    Raises:
      InputError: at the first line that is wrong, naming it.
    """
    if not path.name.removesuffix(".gz").lower().endswith(".jsonl"):
        yield from (line for _, line in _lines(path))
        return
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
        except (ValueError, KeyError, TypeError) as error:
            expected = 'an object with a "text"'
            raise InputError(f"{path}:{number}", ascii(line[:60]), expected) from error
        if not isinstance(text, str):
            raise InputError(f"{path}:{number}", f"{type(text).__name__} as text", "a string")
        yield text


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines of UTF-8, without their ends."""
    try:
        with open_bytes(path) as stream:
            for number, line in enumerate(stream, 1):
                try:
                    yield number, line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    bad = ascii(line[error.start : error.start + 8])
                    where = f"{path}:{number}"
                    raise InputError(where, f"bytes that are not text ({bad})", "UTF-8") from error
    except UNREADABLE as error:
        raise unreadable(path, error) from error


def _once(names: Iterator[str]) -> tuple[str, ...]:
    """Each name once, in order: a label that is named twice is there, no more."""
    return tuple(dict.fromkeys(" ".join(name.split()) for name in names if name.strip()))


def _jsonl(path: Path, fields: tuple[str, ...], labels: str) -> Iterator[Row]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            found = json.loads(line)
        except ValueError as error:
            raise InputError(where, f"no JSON ({error})", "one JSON object a line") from error
        if not isinstance(found, dict):
            raise InputError(where, f"a {type(found).__name__}", "an object")
        parts = []
        for field in fields:
            value = found.get(field)
            if not isinstance(value, str):
                other = _absent(found, field) if field not in found else f"{field}: {value!r}"
                raise InputError(where, other, f"a text in {field!r} (see --text)")
            parts.append(value)
        names = found.get(labels)
        if not isinstance(names, list) or not all(isinstance(n, str | int) for n in names):
            other = _absent(found, labels) if labels not in found else f"{labels}: {names!r}"
            expected = f"a list of names or numbers in {labels!r} (see --labels)"
            raise InputError(where, other[:200], expected)
        yield Row(where, " ".join(parts), None, _once(str(name) for name in names))


def _absent(found: dict[str, object], field: str) -> str:
    return f"no {field!r} among {', '.join(map(repr, list(found)[:8]))}"


def _csv(path: Path, fields: tuple[str, ...], labels: str, separator: str) -> Iterator[Row]:
    csv.field_size_limit(_LONGEST_FIELD)
    delimiter = "\t" if path.name.removesuffix(".gz").lower().endswith(".tsv") else ","
    rows = csv.reader((line + "\n" for _, line in _lines(path)), delimiter=delimiter, strict=True)
    try:
        header = next(rows, [])
        places = []
        for field in (*fields, labels):
            if field not in header:
                found = f"no column {field!r} among {', '.join(header[:8])}"
                raise InputError(f"{path}:1", found, "the columns of --text and --labels")
            places.append(header.index(field))
        for row in rows:
            where = f"{path}:{rows.line_num}"
            if not row:
                continue
            if len(row) != len(header):
                found = f"{len(row)} fields"
                raise InputError(where, found, f"{len(header)}, as in the header")
            text = " ".join(row[place] for place in places[:-1])
            yield Row(where, text, None, _once(iter(row[places[-1]].split(separator))))
    except csv.Error as error:
        raise InputError(f"{path}:{rows.line_num}", str(error), "CSV") from error


def _raw(path: Path, label_file: Path, separator: str | None) -> Iterator[Row]:
    pairs = itertools.zip_longest(_lines(path), _lines(label_file))
    for text, names in pairs:
        if text is None or names is None:
            short, where = (path, names) if text is None else (label_file, text)
            assert where is not None
            found = f"the end of the file before line {where[0]}"
            raise InputError(str(short), found, f"as many lines as in {path} and {label_file}")
        yield Row(f"{path}:{text[0]}", text[1], None, _once(iter(names[1].split(separator))))


def _fasttext(path: Path) -> Iterator[Row]:
    for number, line in _lines(path):
        words = line.split()
        if not words:
            continue
        names = _once(w.removeprefix(_LABEL) for w in words if w.startswith(_LABEL))
        text = " ".join(word for word in words if not word.startswith(_LABEL))
        if not names and not any(_LABEL in word for word in words) and number == 1:
            found = f"a line without {_LABEL}"
            raise InputError(f"{path}:{number}", found, f"`{_LABEL}NAME ... words`")
        yield Row(f"{path}:{number}", text, None, names)


def _svmlight(path: Path) -> Iterator[Row]:
    for number, line in _lines(path):
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
            try:
                values.append(float(match[2]))
            except ValueError as error:
                raise InputError(where, ascii(token[:40]), "a number after the colon") from error
        found = np.asarray(ids, np.int64), np.asarray(values, np.float32)
        if not np.isfinite(found[1]).all():
            raise InputError(where, "a value that is not finite", "finite float32 numbers")
        order = np.argsort(found[0], kind="stable")
        if len(order) and (np.diff(found[0][order]) == 0).any():
            raise InputError(where, "a feature twice", "each feature once in a row")
        names = _once(iter(front.split(",")))
        yield Row(where, None, (found[0][order], found[1][order]), names)
