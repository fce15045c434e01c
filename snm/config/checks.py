"""Checks of one setting: that a table has its name, and that its value has its type."""

from __future__ import annotations

from typing import Any, get_args

from snm.config.marks import load_table
from snm.errors import InputError

__all__ = ["check_name", "check_type"]

_TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def check_name(where: str, setting: str, name: str) -> None:
    """Raises `InputError` unless the table of the setting has the name."""
    table = load_table(setting)
    if name not in table:
        expected = f"{' or '.join(table)}, or a name that the module of SNM_IMPORT adds"
        raise InputError(where, repr(name), expected)


def check_type(where: str, value: Any, hint: Any) -> Any:
    """Returns the value if its type matches the annotation; an int is converted to float.

    Raises:
      InputError: it does not match; the message has `where` and the expected types.
    """
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()
    choices = [hint] if isinstance(hint, type) else list(get_args(hint))
    if float in choices and type(value) is int:
        try:
            return float(value)
        except OverflowError as error:
            found = "a whole number of more than 308 digits"
            raise InputError(where, found, "a finite number") from error
    words: list[str] = []
    for choice in choices:
        if isinstance(choice, str):
            words.append(choice)
        elif isinstance(choice, type):
            if type(value) is choice:
                return value
            words.append(_TYPES[choice])
        else:
            words.extend(get_args(choice))
    if isinstance(value, str) and value in words:
        return value
    raise InputError(where, repr(value), " or ".join(words))
