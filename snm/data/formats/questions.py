"""Reads points to label: text, CSV, JSON lines, Parquet or a file of features; detects which."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from snm.data.formats.detection import recognize, recognize_file
from snm.data.formats.parquet import read_parquet
from snm.data.formats.records import (
    STDIN,
    column_index,
    csv_rows,
    detect_delimiter,
    display_name,
    get_text,
    json_objects,
    numbered_lines,
)
from snm.errors import InputError

__all__ = ["InputForm", "Question", "no_texts_error", "read_questions"]

InputForm = Literal["text", "csv", "jsonl", "parquet", "sparse"]

_TEXT = ("text",)


class Question(NamedTuple):
    """A text, and the other fields of its row by name."""

    text: str
    fields: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Questions:
    """The points of a file.

    Attributes:
      form: what the file holds. `sparse` stands for features: text of the repository, `.npz` and
        `.npy`.
      message: tells the user how the file is read; None if there is nothing to tell.
      texts: the points, if they are texts.
      lines: the lines of the file, if they are features.
    """

    form: InputForm
    message: str | None = None
    texts: Iterator[Question] = dataclasses.field(default_factory=lambda: iter(()))
    lines: Iterator[tuple[int, str]] = dataclasses.field(default_factory=lambda: iter(()))


def read_questions(
    path: Path,
    *,
    form: InputForm | Literal["auto"] = "auto",
    columns: Sequence[str] = (),
    trained_on: Sequence[str] | None = None,
    num_features: int,
    of_texts: bool,
    run: Path,
    item_separator: str | None = None,
) -> Questions:
    """Opens a file of points to label.

    Args:
      path: the file, or `-` for standard input.
      form: its format; `auto` detects it from its name and how it begins.
      columns: names of the columns or fields that hold the text; several are joined by a space.
        By default those of the training texts, if the file has them, otherwise `text`.
      trained_on: the columns of the training texts, if known.
      num_features: d of the model, which a file of features has in its header.
      of_texts: whether the model labels texts, so that a file may have one text per line.
      run: the run of the model, for messages.
      item_separator: the character between items, if texts are lists of items; fields of JSON
        lines and Parquet may then be lists.

    Raises:
      InputError: a file that cannot be read, texts for a model of features, or columns that the
        file lacks; while rows are read, the first wrong line.
    """
    column_choices = (
        [tuple(columns)] if columns else [*([tuple(trained_on)] if trained_on else []), _TEXT]
    )
    explicit = form != "auto"
    form, lines, first = _open(path, form, column_choices, num_features, of_texts)
    if columns and form in ("text", "sparse"):
        if explicit or form == "sparse":
            found = f"{form} in {display_name(path)}"
            raise InputError("--columns", found, "CSV, JSON lines or Parquet")
        form = "csv"  # its reader names the missing column
    if form == "sparse":
        return Questions(form, lines=lines)
    if not of_texts:
        raise no_texts_error(str(path), form, run)
    description = "the column or field of the text"
    if trained_on and not columns:
        description = f"{' and '.join(map(repr, trained_on))}, as the run was trained on"
    if form == "csv":
        return _read_csv(path, lines, column_choices, description, item_separator or " ")
    if form in ("jsonl", "parquet"):
        return _read_records(path, form, lines, column_choices, description, item_separator)
    message = f"{display_name(path)}: one text a line"
    if not explicit:
        message += _note_on_text(path, first, num_features)
    return Questions(form, message, (Question(text, {}) for _, text in lines))


def no_texts_error(where: str, form: str, run: Path) -> InputError:
    """The error for texts of a run that was trained on features."""
    of_texts = "a run on `snm data import` does"
    expected = f"features in text form, .npz or .npy: {run} knows no texts; {of_texts}"
    return InputError(where, f"texts ({form})", expected)


def _open(
    path: Path,
    form: InputForm | Literal["auto"],
    column_choices: list[tuple[str, ...]],
    num_features: int,
    of_texts: bool,
) -> tuple[InputForm, Iterator[tuple[int, str]], str]:
    """The format of a file, its lines, and the text of the first; nothing of files of bytes."""
    if form == "auto":
        form = _form_from_file(path)
    if form == "parquet" or (form == "sparse" and path.suffix.lower() in (".npz", ".npy")):
        return form, iter(()), ""
    lines = numbered_lines(path)
    first = list(itertools.islice(lines, 1))
    text = first[0][1] if first else ""
    if form == "auto":
        form = _form_from_line(path, text, column_choices, num_features, of_texts)
    return form, itertools.chain(first, lines), text


def _note_on_text(path: Path, first: str, num_features: int) -> str:
    """What the first line of a file, which is taken as a text, may be instead; empty if nothing."""
    note = ""
    like = recognize(path, first)
    if like not in (None, *get_args(InputForm)):
        only = "which only `snm data import` reads"
        note = f", labels included: it looks like {like}, {only}"
    elif re.fullmatch(r'"?\w+"?([,;\t] ?"?\w+"?)+', first):
        note = ", the first too; if that names columns, --columns says which has the text"
    if re.fullmatch(r"\s*\d+\s+\d+(\s+\d+)?\s*", first):
        second = f"{num_features} as its second number"
        note += f", the first too: the header of features has {second}"
    return note


def _form_from_file(path: Path) -> InputForm | Literal["auto"]:
    if path.name.removesuffix(".gz").lower().endswith((".npz", ".npy")):
        return "sparse"
    name = recognize_file(path)
    return next((form for form in get_args(InputForm) if form == name), "auto")


def _form_from_line(
    path: Path, line: str, column_choices: list[tuple[str, ...]], num_features: int, of_texts: bool
) -> InputForm:
    """The format of a file by its first line, if its name does not show it."""
    if re.fullmatch(rf"\s*\d+\s+{num_features}(\s+\d+)?\s*", line):
        return "sparse"
    if line.lstrip().startswith("{"):
        try:
            if isinstance(json.loads(line), dict):
                return "jsonl"
        except RecursionError:  # the reader of JSON lines rejects it
            return "jsonl"
        except ValueError:
            pass
    try:
        delimiter = detect_delimiter(path, line, column_choices)
        header = next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        header = []
    # A line that consists of the name of the text column is a header too.
    if any(set(names) <= set(header) for names in column_choices):
        return "csv"
    return "text" if of_texts else "sparse"


def _choose_columns(column_choices: list[tuple[str, ...]], names: Iterable[str]) -> tuple[str, ...]:
    """The first choice whose columns all exist; if there is none, the first choice."""
    available = set(names)
    return next(
        (choice for choice in column_choices if available.issuperset(choice)), column_choices[0]
    )


def _describe(path: Path, form: str, chosen: Sequence[str], others: Iterable[str]) -> str:
    passed = ", ".join(map(repr, others))
    line = f"{display_name(path)}: {form}, text from {' and '.join(map(repr, chosen))}"
    return f"{line}; passed on: {passed}" if passed else line


def _read_csv(
    path: Path,
    lines: Iterable[tuple[int, str]],
    column_choices: list[tuple[str, ...]],
    description: str,
    separator: str,
) -> Questions:
    rows = csv_rows(path, lines, column_choices)
    _, header = next(rows)
    chosen = _choose_columns(column_choices, header)
    expected = f"a header with {description} (see --columns)"
    indices = [column_index(path, name, header, expected) for name in chosen]
    # A first column without a name is an index, as pandas writes it; a last one is none (`text,,`).
    others = {"": 0} if header[0] == "" and "" not in chosen else {}
    other_names = [name for name in header if name and name not in chosen]
    others |= {name: column_index(path, name, header, expected) for name in other_names}

    def read() -> Iterator[Question]:
        for _, row in rows:
            fields = {name: row[index] for name, index in others.items()}
            yield Question(separator.join(row[index] for index in indices), fields)

    return Questions("csv", _describe(path, "CSV", chosen, others), read())


def _read_records(
    path: Path,
    form: Literal["jsonl", "parquet"],
    lines: Iterable[tuple[int, str]],
    column_choices: list[tuple[str, ...]],
    description: str,
    item_separator: str | None,
) -> Questions:
    if form == "parquet":
        if path == STDIN:
            expected = "the name of a file: Parquet is read from its end"
            raise InputError(display_name(path), "Parquet", expected)
        title, kind, rows = "Parquet", "a row", read_parquet(path)
    else:
        title, kind, rows = "JSON lines", "an object", json_objects(path, lines)
    first = next(rows, None)
    if first is None:
        return Questions(form)
    chosen = _choose_columns(column_choices, first[1])

    def question(where: str, record: dict[str, Any]) -> Question:
        texts = []
        for name in chosen:
            expected = f"{kind} with {description} (see --columns)"
            if name in record:
                expected = f"a text in {name!r} (see --columns)"
            texts.append(get_text(where, record, name, item_separator, expected))
        fields = {name: value for name, value in record.items() if name not in chosen}
        return Question((item_separator or " ").join(texts), fields)

    first_question = question(*first)  # raises errors before anything is printed
    rest = (question(where, record) for where, record in rows)
    others = first_question.fields
    return Questions(
        form,
        _describe(path, title, chosen, others),
        itertools.chain([first_question], rest),
    )
