"""Turns the box in which tyro explains a wrong command line into a one-line `InputError`.

The supported versions of tyro give no more than the text of the box. If this module does not know a
box, the error quotes its text.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence

from snm.errors import InputError

__all__ = ["error_from_box", "wide_terminal"]

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CORNER, _SIDE = "╭", "│"
_RULE = re.compile("[─-]+")  # a horizontal line between the error and the help
_WIDE_COLUMNS = "100000"

_INVALID = re.compile(r"invalid choice '(.*)' for argument '(.*?)'\. Expected one of \((.*)\)\.")
_UNREADABLE = re.compile(r"Error parsing (\S+): (.*)")
_INCOMPLETE = re.compile(r"Missing value for argument '(.*?)'\. Expected (\d+) values")
_UNKNOWN = re.compile(r"Unrecognized options: (.*)")
_NO_COMMAND = re.compile(r"Expected one of \{(.*)\}")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_TYPE = re.compile(r"INT|FLOAT|\{[^}]*\}")
_TYPE_NAMES = {"INT": "a whole number", "FLOAT": "a number"}
_PARSERS = {"INT": int, "FLOAT": float}


@contextlib.contextmanager
def wide_terminal() -> Iterator[None]:
    """Makes tyro assume a terminal so wide that it wraps no line of a box."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDE_COLUMNS
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def error_from_box(box: str, verb: str) -> InputError:
    """The error that a box of tyro describes.

    Args:
      box: the output of tyro, written within `wide_terminal`.
      verb: the command, such as `snm data import`.

    Example:
      >>> text = "invalid choice 'x' for argument '--to'. Expected one of ('a', 'b')."
      >>> box = chr(10).join(["╭─ Invalid choice ─╮", f"│ {text} │", "╰──────────────────╯"])
      >>> error_from_box(box, "snm export").as_flags
      "--to: found 'x', expected one of a, b"
    """
    error_lines, help_lines = _split_box(box)
    text = " ".join(line.strip() for line in error_lines)
    if found := _INVALID.search(text):
        choices = re.findall(r"'([^']*)'", found[3])
        return InputError(found[2], repr(found[1]), _one_of(choices))
    if found := _UNREADABLE.search(text):
        return _wrong_value(found[1], found[2], help_lines)
    if found := _INCOMPLETE.search(text):
        if found[2] == "1":
            return InputError(found[1], "no value", "one after it")
        return InputError(found[1], "too few", f"{found[2]} values")
    if text.startswith("Missing from "):
        return _missing(error_lines)
    if found := _UNKNOWN.search(text):
        what = "an unknown option" if found[1].startswith("-") else "a word too many"
        return InputError(found[1], what, f"what `{verb} --help` lists")
    if found := _NO_COMMAND.search(text):
        return InputError(verb, "no command", _one_of(found[1].split(", ")))
    return InputError(verb, text or "words that do not fit", f"what `{verb} --help` lists")


def _split_box(box: str) -> tuple[list[str], list[str]]:
    """The lines of a box above its first rule, which explain the error, and those below."""
    title, *lines = [_COLOUR.sub("", line).rstrip() for line in box.splitlines()] or [""]
    if title.startswith(_CORNER):
        inside = [line.strip(_SIDE).rstrip()[1:] for line in lines if line.startswith(_SIDE)]
    else:  # without a frame, on a terminal that is not UTF-8: a rule is below the title
        inside = [line[2:] for line in lines[1:]]
    rules = [number for number, line in enumerate(inside) if _RULE.fullmatch(line)]
    first = rules[0] if rules else len(inside)
    return [line for line in inside[:first] if line], inside[first + 1 :]


def _wrong_value(where: str, reason: str, help_lines: Sequence[str]) -> InputError:
    """The error of a value of the wrong type; the help names the type of the option."""
    usage = next((line.strip() for line in help_lines if line.startswith(" ")), where)
    types = dict.fromkeys(_TYPE.findall(usage.removeprefix(where)))  # without repeats, in order
    message = reason.partition(" Got errors:")[0]
    quoted = [value[1:-1] for value in _QUOTED.findall(message)]
    wrong = [value for value in quoted if not any(_is_valid(value, kind) for kind in types)]
    if not types or not wrong:
        return InputError(where, reason, usage)
    valid = [value for kind in types for value in _valid_values(kind)]
    return InputError(where, repr(wrong[0]), _join_or(valid))


def _is_valid(value: str, kind: str) -> bool:
    if kind not in _PARSERS:
        return value in _valid_values(kind)
    try:
        _PARSERS[kind](value)
    except ValueError:
        return False
    return True


def _valid_values(kind: str) -> list[str]:
    """Describes the values of a type in the help of tyro: `INT`, or choices in braces."""
    return [_TYPE_NAMES[kind]] if kind in _TYPE_NAMES else kind.strip("{}").split(",")


def _missing(lines: Sequence[str]) -> InputError:
    """The error of missing options: each is a line, and its help follows, indented further."""
    verb = lines[0].removeprefix("Missing from ").rstrip(":")
    usages = [line.strip() for line in lines if re.match(r" {4}\S", line)]
    names = [re.sub(r"(--\S+).*", r"\1", name) for name in usages]
    if len(usages) != 1:
        return InputError(verb, f"no {' and no '.join(names)}", " and ".join(usages))
    help_text = " ".join(line.strip() for line in lines if re.match(r" {5}", line))
    help_text = help_text.partition(" (required)")[0].partition(". ")[0].rstrip(".")
    if names == usages:  # a positional argument
        return InputError(verb, f"no {usages[0]}", f"{usages[0]} ahead of the options: {help_text}")
    return InputError(
        names[0], "no value", f"{usages[0].removeprefix(names[0]).strip()}: {help_text}"
    )


def _one_of(choices: Sequence[str]) -> str:
    return f"one of {', '.join(choices)}" if len(choices) > 1 else "".join(choices)


def _join_or(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
