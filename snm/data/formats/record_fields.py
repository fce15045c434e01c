"""Reads the text, labels and weight of a record: a JSON object, or a row of a Parquet file."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from snm.data.formats.label_lists import parse_list
from snm.data.formats.records import get_text, missing, parse_number
from snm.errors import InputError

__all__ = ["SEPARATORS", "labels_of", "text_of", "to_weight", "weight_of"]

SEPARATORS = ";|,"
"""Usual separators of labels; a text that contains one is not accepted as a single label."""
_LARGEST_WEIGHT = 3e38  # below the largest float32
_MAX_EXAMPLE = 120  # characters of an example in a message


def text_of(where: str, record: dict[str, Any], field: str, item_separator: str | None) -> str:
    """The text in a field; a list is joined if texts are lists of items.

    Args:
      where: file and place, for messages.
      record: the values by field.
      field: the name of the field.
      item_separator: the character between the items of a text; None if texts are not lists.

    Raises:
      InputError: the field is missing or of another type, or holds an item with the separator.
    """
    expected = "the text's field, named with --text FIELD"
    if field in record:
        expected = f"a text in {field!r} (see --text)"
    if isinstance(record.get(field), list):
        expected += ", or --same-items for lists of items"
    return get_text(where, record, field, item_separator, expected)


def labels_of(where: str, record: dict[str, Any], field: str) -> list[Any]:
    """The labels in a field: a list or a single label; `null` is no label.

    Args:
      where: file and place, for messages.
      record: the values by field.
      field: the name of the field.

    Returns:
      texts and whole numbers.

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


def _kind(value: object) -> str:
    """The kind of a value, for messages."""
    if isinstance(value, float):
        return f"{value!r}, a decimal number,"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value)  # true, false or null


def weight_of(where: str, record: dict[str, Any], field: str) -> float:
    """The weight in a field.

    Args:
      where: file and place, for messages.
      record: the values by field.
      field: the name of the field.

    Raises:
      InputError: the field is missing, or is no finite number of at least 0.
    """
    if field not in record:
        expected = f"a weight in {field!r} (see --weight-column)"
        raise InputError(where, missing(record, field)[:200], expected)
    return to_weight(where, field, record[field])


def to_weight(where: str, field: str, value: object) -> float:
    """The weight that a value is.

    Args:
      where: file and place, for messages.
      field: the name of the field or column.
      value: a number, or its digits.

    Raises:
      InputError: no finite number of at least 0.
    """
    number = parse_number(str(value)) if type(value) in (str, int, float) else math.nan
    if not 0 <= number <= _LARGEST_WEIGHT:
        expected = "a finite number of at least 0 (see --weight-column)"
        raise InputError(where, f"{field}: {ascii(value)[:40]}", expected)
    return number
