"""Reads points to label: finds out whether a file holds texts, CSV, JSON lines or features."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from snm.data.formats.records import (
    csv_rows,
    delimiter_of,
    json_objects,
    named,
    numbered_lines,
    place_of,
    text_of,
)
from snm.errors import InputError

__all__ = ["InputForm", "Question", "Questions", "read_questions"]

InputForm = Literal["text", "csv", "jsonl", "sparse"]

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
      about: a line that says how the file is read, or None.
      texts: the points, where they are texts.
      lines: the lines of the file, where they are features.
    """

    form: InputForm
    about: str | None = None
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
    item_separator: str | None = None,
) -> Questions:
    """Opens a file of points to label.

    Args:
      path: the file, or `STDIN`.
      form: what it holds; `auto` finds out by the name and the first line.
      columns: names of the columns or fields that hold the text; several are joined by a space.
        Without any they are those of the training texts, if the file has these, else `text`.
      trained_on: the columns of the training texts, if known.
      num_features: d of the model, which the header of a file of features has.
      of_texts: whether the model labels texts, so that a file may be one text a line.
      item_separator: the character between the items of a text, where texts are lists of items;
        fields of JSON lines may be lists then.

    Raises:
      InputError: a file that cannot be read, or columns that it lacks; while rows are read, the
        first wrong line.
    """
    asked = [tuple(columns)] if columns else [*([tuple(trained_on)] if trained_on else []), _TEXT]
    told, text = form != "auto", ""
    if form == "auto":
        form = _form_of_name(path)
    lines: Iterator[tuple[int, str]] = iter(())
    if form != "sparse" or path.suffix.lower() not in (".npz", ".npy"):
        lines = numbered_lines(path)
        first = next(lines, None)
        lines = itertools.chain([] if first is None else [first], lines)
        if form == "auto":
            text = "" if first is None else first[1]
            form = _form_of_line(path, text, asked, num_features, of_texts)
    if columns and form in ("text", "sparse"):
        if told or form == "sparse":
            raise InputError("--columns", f"{form} in {named(path)}", "CSV or JSON lines")
        form = "csv"  # names the column that is missing
    if form != "sparse" and not of_texts:
        return Questions(form)  # the caller refuses it
    wanted = "the column or field of the text"
    if trained_on and not columns:
        wanted = f"{' and '.join(map(repr, trained_on))}, as the run was trained on"
    if form == "csv":
        return _of_csv(path, lines, asked, wanted, item_separator or " ")
    if form == "jsonl":
        return _of_json(path, lines, asked, wanted, item_separator)
    if form == "text":
        about = f"{named(path)}: one text a line"
        if not told and re.fullmatch(r'"?\w+"?([,;\t] ?"?\w+"?)+', text):
            about += ", the first too; if that names columns, --columns says which has the text"
        if not told and re.fullmatch(r"\s*\d+\s+\d+(\s+\d+)?\s*", text):
            second = f"{num_features} as its second number"
            about += f", the first too: the header of features has {second}"
        return Questions(form, about, (Question(t, {}) for _, t in lines))
    return Questions("sparse", lines=lines)


def _form_of_name(path: Path) -> InputForm | Literal["auto"]:
    name = path.name.removesuffix(".gz").lower()
    by_suffix: tuple[tuple[tuple[str, ...], InputForm], ...] = (
        ((".npz", ".npy"), "sparse"),
        ((".csv", ".tsv"), "csv"),
        ((".jsonl", ".json"), "jsonl"),
    )
    return next((form for suffixes, form in by_suffix if name.endswith(suffixes)), "auto")


def _form_of_line(
    path: Path, line: str, asked: list[tuple[str, ...]], num_features: int, of_texts: bool
) -> InputForm:
    """What a file whose name does not tell begins with."""
    if re.fullmatch(rf"\s*\d+\s+{num_features}(\s+\d+)?\s*", line):
        return "sparse"
    if line.lstrip().startswith("{"):
        try:
            if isinstance(json.loads(line), dict):
                return "jsonl"
        except RecursionError:  # the reader of JSON lines refuses it
            return "jsonl"
        except ValueError:
            pass
    try:
        header = next(csv.reader([line], delimiter=delimiter_of(path, line), strict=True), [])
    except csv.Error:
        header = []
    # A line that is the name of the text's column is a header, also where it is the only one.
    if any(set(names) <= set(header) for names in asked):
        return "csv"
    return "text" if of_texts else "sparse"


def _used(asked: list[tuple[str, ...]], there: Iterable[str]) -> tuple[str, ...]:
    """The first columns asked for that are all there; the first if none are, to be missed."""
    known = set(there)
    return next((names for names in asked if known.issuperset(names)), asked[0])


def _about(path: Path, form: str, used: Sequence[str], others: Iterable[str]) -> str:
    passed = ", ".join(map(repr, others))
    line = f"{named(path)}: {form}, text from {' and '.join(map(repr, used))}"
    return f"{line}; passed on: {passed}" if passed else line


def _of_csv(
    path: Path,
    lines: Iterable[tuple[int, str]],
    asked: list[tuple[str, ...]],
    wanted: str,
    joining: str,
) -> Questions:
    rows = csv_rows(path, lines)
    _, header = next(rows)
    used = _used(asked, header)
    expected = f"a header with {wanted} (see --columns)"
    places = [place_of(path, name, header, expected) for name in used]
    named_ones = [name for name in header if name and name not in used]  # not `text,,`
    others = {name: place_of(path, name, header, expected) for name in named_ones}

    def read() -> Iterator[Question]:
        for _, row in rows:
            fields = {name: row[place] for name, place in others.items()}
            yield Question(joining.join(row[place] for place in places), fields)

    return Questions("csv", _about(path, "CSV", used, others), read())


def _of_json(
    path: Path,
    lines: Iterable[tuple[int, str]],
    asked: list[tuple[str, ...]],
    wanted: str,
    item_separator: str | None,
) -> Questions:
    rows = json_objects(path, lines)
    first = next(rows, None)
    if first is None:
        return Questions("jsonl")
    used = _used(asked, first[1])

    def question(where: str, found: dict[str, Any]) -> Question:
        texts = []
        for name in used:
            expected = f"an object with {wanted} (see --columns)"
            if name in found:
                expected = f"a text in {name!r} (see --columns)"
            texts.append(text_of(where, found, name, item_separator, expected))
        fields = {name: value for name, value in found.items() if name not in used}
        return Question((item_separator or " ").join(texts), fields)

    begins = question(*first)  # refused before anything is printed
    rest = (question(where, found) for where, found in rows)
    others = begins.fields
    return Questions(
        "jsonl", _about(path, "JSON lines", used, others), itertools.chain([begins], rest)
    )
