"""Checks of the values of a dataclass's fields against their types and choices."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from snm.errors import InputError
from snm.text import nearest

__all__ = ["check_choices", "check_types"]

_TYPES: dict[type, tuple[Any, str]] = {
    bool: ((bool, np.bool_), "True or False"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "a name"),
}


def check_types(instance: Any) -> None:
    """Raises `InputError` if a field of type bool, int, float or str has a value of another type.

    Args:
      instance: a dataclass; fields of other types are not checked.
    """
    for name, hint in get_type_hints(type(instance)).items():
        if hint in _TYPES:
            kind, expected = _TYPES[hint]
            value = getattr(instance, name)
            is_bool = isinstance(value, bool | np.bool_)
            if not isinstance(value, kind) or is_bool != (hint is bool):
                raise InputError(f"{type(instance).__name__} {name}", repr(value)[:80], expected)


def check_choices(instance: Any, tables: Mapping[str, Collection[str]]) -> None:
    """Raises `InputError` if a field has a value that is not among its choices.

    Args:
      instance: a dataclass; the choices of a `Literal` field are those of its type.
      tables: name of another field -> its choices.
    """
    hints = get_type_hints(type(instance))
    literals = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
    for name, choices in {**literals, **tables}.items():
        value = getattr(instance, name)
        if not isinstance(value, str) or value not in choices:
            expected = f"one of {', '.join(choices)}" if len(choices) > 3 else " or ".join(choices)
            where = f"{type(instance).__name__} {name}"
            raise InputError(where, repr(value), nearest(str(value), choices, expected))
