"""Pydantic's errors of a request, worded as all others: where, what was found and expected."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from snm.errors import InputError, nearest
from snm.serve.messages import ENTRIES, VECTOR

__all__ = ["as_input_error"]

_SHOWN = 40  # characters of what was found
_NAMES = {"list": "a list", "string": "a text", "integer": "a whole number",
          "boolean": "true or false"}  # fmt: skip
_NOT_OF_THE_BODY = ("body", "[key]", ENTRIES, VECTOR)  # parts of places that pydantic adds
_LEAST = {"greater_than_equal": "ge", "less_than_equal": "le"}


def as_input_error(error: Mapping[str, Any], fields: Sequence[str], example: str) -> InputError:
    """The error of a field.

    Args:
      error: one of pydantic's `ValidationError.errors()`, of a field of the body.
      fields: of a request.
      example: a valid body.
    """
    place = [str(part) for part in error["loc"] if part not in _NOT_OF_THE_BODY]
    where, kind = ".".join(place) or "body", error["type"]
    if kind == "missing":
        return InputError(where, "nothing", f"JSON such as {example}")
    if kind == "extra_forbidden":
        expected = nearest(where, fields, f"one of {', '.join(fields)}")
        return InputError(where, "an unknown field", expected)
    if kind in _LEAST:
        limit = error["ctx"][_LEAST[kind]]
        expected = f"{limit} or {'more' if kind == 'greater_than_equal' else 'less'}"
        return InputError(where, _short(error["input"]), expected)
    said = error["msg"].removeprefix("Input should be ")
    named = re.match(r"a valid (\w+)", said)
    expected = _NAMES.get(named[1], f"a {named[1]}") if named else said
    return InputError(where, _short(error["input"]), expected)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
