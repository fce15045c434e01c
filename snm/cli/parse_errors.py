"""Turns the box in which tyro explains a wrong command line into the one line of an `InputError`.

The text of the box is all that tyro tells in each of its versions that we allow. Where this module
does not know a box, the line has the box's own words.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence

from snm.errors import InputError

__all__ = ["explained", "unwrapped"]

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CORNER, _SIDE = "╭", "│"
_RULE = re.compile("[─-]+")  # across a box, between what is wrong and the help
_WIDEST = "100000"

_INVALID = re.compile(r"invalid choice '(.*)' for argument '(.*?)'\. Expected one of \((.*)\)\.")
_UNREADABLE = re.compile(r"Error parsing (\S+): (.*)")
_INCOMPLETE = re.compile(r"Missing value for argument '(.*?)'\. Expected (\d+) values")
_UNKNOWN = re.compile(r"Unrecognized options: (.*)")
_NO_COMMAND = re.compile(r"Expected one of \{(.*)\}")
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_TYPE = re.compile(r"INT|FLOAT|\{[^}]*\}")
_NOUNS = {"INT": "a whole number", "FLOAT": "a number"}
_MADE_BY = {"INT": int, "FLOAT": float}


@contextlib.contextmanager
def unwrapped() -> Iterator[None]:
    """Has tyro take the screen for so wide that it breaks no line of a box, nor a value in it."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDEST
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def explained(box: str, verb: str) -> InputError:
    """The error that a box of tyro's describes.

    Args:
      box: what tyro wrote, `unwrapped`.
      verb: the words of the command, such as `snm data import`.

    Example:
      >>> said = "invalid choice 'x' for argument '--to'. Expected one of ('a', 'b')."
      >>> box = chr(10).join(["╭─ Invalid choice ─╮", f"│ {said} │", "╰──────────────────╯"])
      >>> explained(box, "snm export").as_flags
      "--to: found 'x', expected one of a, b"
    """
    wrong, rest = _parts(box)
    text = " ".join(line.strip() for line in wrong)
    if found := _INVALID.search(text):
        choices = re.findall(r"'([^']*)'", found[3])
        return InputError(found[2], repr(found[1]), _one_of(choices))
    if found := _UNREADABLE.search(text):
        return _wrong_value(found[1], found[2], rest)
    if found := _INCOMPLETE.search(text):
        one = found[2] == "1"
        short, expected = ("no value", "one after it") if one else ("too few", f"{found[2]} values")
        return InputError(found[1], short, expected)
    if text.startswith("Missing from "):
        return _missing(wrong)
    if found := _UNKNOWN.search(text):
        what = "an unknown option" if found[1].startswith("-") else "a word too many"
        return InputError(found[1], what, f"what `{verb} --help` lists")
    if found := _NO_COMMAND.search(text):
        return InputError(verb, "no command", _one_of(found[1].split(", ")))
    return InputError(verb, text or "words that do not fit", f"what `{verb} --help` lists")


def _parts(box: str) -> tuple[list[str], list[str]]:
    """The lines of a box above its first rule, which say what is wrong, and those below."""
    title, *lines = [_COLOUR.sub("", line).rstrip() for line in box.splitlines()] or [""]
    if title.startswith(_CORNER):
        inside = [line.strip(_SIDE).rstrip()[1:] for line in lines if line.startswith(_SIDE)]
    else:  # without a frame, on a terminal that is not UTF-8: a rule is below the title
        inside = [line[2:] for line in lines[1:]]
    rules = [number for number, line in enumerate(inside) if _RULE.fullmatch(line)]
    first = rules[0] if rules else len(inside)
    return [line for line in inside[:first] if line], inside[first + 1 :]


def _wrong_value(where: str, reason: str, help_lines: Sequence[str]) -> InputError:
    """A value of another type than the option's, which the help below names."""
    usage = next((line.strip() for line in help_lines if line.startswith(" ")), where)
    types = dict.fromkeys(_TYPE.findall(usage.removeprefix(where)))  # each once, in their order
    given = reason.partition(" Got errors:")[0]
    quoted = [value[1:-1] for value in _QUOTED.findall(given)]
    wrong = [value for value in quoted if not any(_fits(value, kind) for kind in types)]
    if not types or not wrong:
        return InputError(where, reason, usage)
    return InputError(where, repr(wrong[0]), _either([w for k in types for w in _words(k)]))


def _fits(value: str, kind: str) -> bool:
    if kind not in _MADE_BY:
        return value in _words(kind)
    try:
        _MADE_BY[kind](value)
    except ValueError:
        return False
    return True


def _words(kind: str) -> list[str]:
    """What fits a type of tyro's: `INT`, or some choices in braces."""
    return [_NOUNS[kind]] if kind in _NOUNS else kind.strip("{}").split(",")


def _missing(lines: Sequence[str]) -> InputError:
    """Options without a value: each is a line, and its help the lines below, further in."""
    verb = lines[0].removeprefix("Missing from ").rstrip(":")
    named = [line.strip() for line in lines if re.match(r" {4}\S", line)]
    names = [re.sub(r"(--\S+).*", r"\1", name) for name in named]
    if len(named) != 1:
        return InputError(verb, f"no {' and no '.join(names)}", " and ".join(named))
    about = " ".join(line.strip() for line in lines if re.match(r" {5}", line))
    about = about.partition(" (required)")[0].partition(". ")[0].rstrip(".")
    if names == named:  # an argument by its place
        return InputError(verb, f"no {named[0]}", f"{named[0]}: {about}")
    return InputError(names[0], "no value", f"{named[0].removeprefix(names[0]).strip()}: {about}")


def _one_of(choices: Sequence[str]) -> str:
    return f"one of {', '.join(choices)}" if len(choices) > 1 else "".join(choices)


def _either(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
