"""Parses JSON into dataclasses: the type hints of a dataclass are the schema of a file.

The types of fields: bool, int, float, str, `Any`, `Literal`, lists (`tuple`), objects with any keys
(`dict`), and other dataclasses; each optionally `| None`, or `Annotated` with a `Limit`. Other
conditions are checked by `__post_init__`. A `TypedDict` is checked in the same way, but stays a
dict. Parsing never runs code from the file.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Iterator
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from snm.errors import InputError

__all__ = ["Kind", "as_json", "parse_json"]

Kind = TypeVar("Kind")

_TYPE_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text",
          tuple: "a list", dict: "an object"}  # fmt: skip


def parse_json(kind: type[Kind], value: Any, where: str) -> Kind:
    """Checks a value, and converts it to a dataclass; a `TypedDict` is returned as it is.

    Fields with a default may be missing, and unknown keys are ignored.

    Args:
      kind: the dataclass or `TypedDict`.
      value: from `json.loads`.
      where: the file, for messages.

    Raises:
      InputError: the first field that is missing or does not fit.

    Example:
      >>> @dataclasses.dataclass(frozen=True)
      ... class Point:
      ...     at: tuple[float, ...]
      ...     name: str | None = None
      >>> parse_json(Point, {"at": [1, 2.5]}, "a.json")
      Point(at=(1.0, 2.5), name=None)
      >>> parse_json(Point, {"at": [1], "name": 3}, "a.json")
      Traceback (most recent call last):
      snm.errors.InputError: a.json: name: found 3, expected a text or null
    """
    return _parse_object(kind, value, where)


def as_json(record: Any) -> dict[str, Any]:
    """The inverse of `parse_json`. Fields with their default value are left out.

    Those with a default factory are not. Nested dataclasses keep all of their fields.
    """
    values = json.loads(json.dumps(dataclasses.asdict(record)))  # lists for tuples
    return {
        field.name: values[field.name]
        for field in dataclasses.fields(record)
        if values[field.name] != field.default
    }


def _parse_object(kind: Any, value: Any, where: str, otherwise: str = "") -> Any:
    if not isinstance(value, dict):
        raise InputError(where, _describe_value(value), f"an object{otherwise}")
    found = {}
    for name, hint, needed in _fields(kind):
        at = f"{where}: {name}"
        if name in value:
            found[name] = _parse_value(hint, value[name], at)
        elif needed:
            raise InputError(at, "nothing", _describe_type(hint))
    if is_typeddict(kind):
        return value
    try:
        return kind(**found)
    except ValueError as error:
        raise InputError(where, _describe_value(value), str(error)) from error


def _fields(kind: Any) -> Iterator[tuple[str, Any, bool]]:
    """The name and the type of each field, and whether it is required."""
    hints = get_type_hints(kind, include_extras=True)
    if is_typeddict(kind):
        for name, hint in hints.items():
            needed = get_origin(hint) is not NotRequired
            yield name, hint if needed else get_args(hint)[0], needed
        return
    for field in dataclasses.fields(kind):
        needed = field.default is field.default_factory is dataclasses.MISSING
        yield field.name, hints[field.name], needed


def _parse_value(kind: Any, value: Any, where: str, otherwise: str = "") -> Any:
    origin, of = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):  # `X | None`: what else is there is only a default
        return None if value is None else _parse_value(of[0], value, where, " or null")
    if origin is Annotated:
        found = _parse_value(of[0], value, where, otherwise)
        if not of[1].allows(found):
            raise InputError(where, _describe_value(value), f"{of[1].expected}{otherwise}")
        return found
    if dataclasses.is_dataclass(kind):
        return _parse_object(kind, value, where, otherwise)
    if origin is Any or (origin is Literal and value in of):
        return value
    if origin is tuple and isinstance(value, list):
        item_types = of[:1] * len(value) if of[-1] is ... else of
        if len(item_types) == len(value):
            return tuple(
                _parse_value(item_type, item, where)
                for item_type, item in zip(item_types, value, strict=True)
            )
    if origin is dict and isinstance(value, dict):
        return {name: _parse_value(of[1], x, f"{where}: {name}") for name, x in value.items()}
    if origin is float and type(value) is int and abs(value) < 2**1023:
        return float(value)
    if origin in (bool, int, float, str) and type(value) is origin:
        return value
    raise InputError(where, _describe_value(value), f"{_describe_type(kind)}{otherwise}")


def _describe_type(kind: Any) -> str:
    """The expected value of a type, for messages."""
    origin, of = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        return f"{_describe_type(of[0])} or null"
    if origin is Annotated:
        return of[1].expected
    if origin is Literal:
        return " or ".join(of)
    if origin is tuple and of[-1] is not ...:
        return f"a list of {len(of)}"
    return _TYPE_NAMES.get(origin, "an object")


def _describe_value(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return ascii(value)[:60]
