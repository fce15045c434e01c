"""JSON as typed values: a dataclass says what a file must hold, and is what its reader gives.

The types of fields: bool, int, float, str, `Any`, one of some words (`Literal`), lists (`tuple`),
objects with any keys (`dict`), other dataclasses, each perhaps `| None`, and within a `Limit`
beside the type. What no type says, `__post_init__` checks. A `TypedDict` is checked likewise, but
stays a dict. Nothing that is read can run code.
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

__all__ = ["as_json", "typed"]

Kind = TypeVar("Kind")

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text",
          tuple: "a list", dict: "an object"}  # fmt: skip


def typed(kind: type[Kind], value: Any, where: str) -> Kind:
    """The value as a dataclass; or as it is, where the kind is a `TypedDict`.

    What has a default may be missing, and keys without a field are passed over.

    Args:
      kind: the dataclass or `TypedDict`.
      value: as `json.loads` gives it.
      where: the file, for messages.

    Raises:
      InputError: the first field that is missing or does not fit.

    Example:
      >>> @dataclasses.dataclass(frozen=True)
      ... class Point:
      ...     at: tuple[float, ...]
      ...     name: str | None = None
      >>> typed(Point, {"at": [1, 2.5]}, "a.json")
      Point(at=(1.0, 2.5), name=None)
      >>> typed(Point, {"at": [1], "name": 3}, "a.json")
      Traceback (most recent call last):
      snm.errors.InputError: a.json: name: found 3, expected a text or null
    """
    return _object(kind, value, where)


def as_json(record: Any) -> dict[str, Any]:
    """A dataclass in the form that `typed` reads; fields that have their default are left out.

    Those of dataclasses in its fields are all there.
    """
    values = json.loads(json.dumps(dataclasses.asdict(record)))  # lists for tuples
    return {
        field.name: values[field.name]
        for field in dataclasses.fields(record)
        if values[field.name] != field.default
    }


def _object(kind: Any, value: Any, where: str, otherwise: str = "") -> Any:
    if not isinstance(value, dict):
        raise InputError(where, _shown(value), f"an object{otherwise}")
    found = {}
    for name, hint, needed in _fields(kind):
        at = f"{where}: {name}"
        if name in value:
            found[name] = _value(hint, value[name], at)
        elif needed:
            raise InputError(at, "nothing", _says(hint))
    if is_typeddict(kind):
        return value
    try:
        return kind(**found)
    except ValueError as error:
        raise InputError(where, _shown(value), str(error)) from error


def _fields(kind: Any) -> Iterator[tuple[str, Any, bool]]:
    """Name, type, and whether it must be there."""
    hints = get_type_hints(kind, include_extras=True)
    if is_typeddict(kind):
        for name, hint in hints.items():
            needed = get_origin(hint) is not NotRequired
            yield name, hint if needed else get_args(hint)[0], needed
        return
    for field in dataclasses.fields(kind):
        needed = field.default is field.default_factory is dataclasses.MISSING
        yield field.name, hints[field.name], needed


def _value(kind: Any, value: Any, where: str, otherwise: str = "") -> Any:
    origin, of = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):  # the other kinds are of values that no file has
        return None if value is None else _value(of[0], value, where, " or null")
    if origin is Annotated:
        found = _value(of[0], value, where, otherwise)
        if not of[1].allows(found):
            raise InputError(where, _shown(value), f"{of[1].expected}{otherwise}")
        return found
    if dataclasses.is_dataclass(kind):
        return _object(kind, value, where, otherwise)
    if origin is Any or (origin is Literal and value in of):
        return value
    if origin is tuple and isinstance(value, list):
        each = of[:1] * len(value) if of[-1] is ... else of
        if len(each) == len(value):
            return tuple(_value(one, x, where) for one, x in zip(each, value, strict=True))
    if origin is dict and isinstance(value, dict):
        return {name: _value(of[1], x, f"{where}: {name}") for name, x in value.items()}
    if origin is float and type(value) is int and abs(value) < 2**1023:
        return float(value)
    if origin in (bool, int, float, str) and type(value) is origin:
        return value
    raise InputError(where, _shown(value), f"{_says(kind)}{otherwise}")


def _says(kind: Any) -> str:
    """What a value should be, for messages."""
    origin, of = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        return f"{_says(of[0])} or null"
    if origin is Annotated:
        return of[1].expected
    if origin is Literal:
        return " or ".join(of)
    if origin is tuple and of[-1] is not ...:
        return f"a list of {len(of)}"
    return _WORDS.get(origin, "an object")


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return ascii(value)[:60]
