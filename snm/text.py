"""The words of printed lines and of error messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = [
    "counted",
    "duration",
    "escape_controls",
    "first_line",
    "format_bytes",
    "nearest",
    "one_line",
    "pip_install",
]


def counted(count: int, noun: str) -> str:
    """A number of things.

    Example:
      >>> counted(1, "test point"), counted(1200, "label")
      ('1 test point', '1,200 labels')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """A time to two digits, in seconds, minutes or hours.

    Example:
      >>> duration(0.0123), duration(95), duration(110), duration(1320), duration(9000)
      ('0.012 s', '95 s', '1.8 min', '22 min', '2.5 h')
    """
    unit, size = next((u, s) for u, s, most in _UNITS if seconds < most)
    value = seconds / size
    return f"{value:,.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"


_UNITS = (("s", 1, 100), ("min", 60, 6000), ("h", 3600, float("inf")))  # and below what seconds


def format_bytes(size: float) -> str:
    """A number of bytes.

    Example:
      >>> format_bytes(80 * 2**30), format_bytes(12 * 2**20), format_bytes(300 * 2**10)
      ('80.00 GiB', '12 MiB', '0.3 MiB')
    """
    value = size / 2**20
    if value >= 1024:
        return f"{value / 1024:,.2f} GiB"
    return f"{round(value, 0 if value >= 10 else 1):g} MiB"


def nearest(word: str, known: Iterable[str], otherwise: str) -> str:
    """What is expected instead of an unknown word: the most similar one, or `otherwise`.

    Example:
      >>> nearest("epoch", ["dim", "epochs"], "a setting"), nearest("lr", ["dim"], "a setting")
      ('for example epochs', 'a setting')
    """
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"for example {near[0]}" if near else otherwise


def escape_controls(text: str) -> str:
    r"""Escapes the characters that a terminal or a page would interpret.

    Example:
      >>> escape_controls("a\x1b[31mb\u202e")
      'a\\x1b[31mb\\u202e'
    """
    return _UNSAFE.sub(lambda match: ascii(match[0])[1:-1], text)


# C0 except tab and newline, DEL and C1; marks that change the direction of text; lone surrogates,
# which stand for bytes of file names that are not UTF-8.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def pip_install(extra: str, *, constrained: bool = True) -> str:
    """The command that installs an extra of `snm`, in the folder of its repository.

    Args:
      extra: its name.
      constrained: to the versions that the tests run with; some packages exclude these.

    Example:
      >>> pip_install("serve")
      "pip install -e '.[serve]' -c constraints.txt"
    """
    return f"pip install -e '.[{extra}]'" + (" -c constraints.txt" if constrained else "")


def first_line(error: BaseException) -> str:
    r"""The first line of the text of an error of another package, cut where it is long.

    Example:
      >>> first_line(RuntimeError("no device\nmore of it")), first_line(ValueError())
      ('no device', 'ValueError')
    """
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def one_line(error: BaseException) -> str:
    r"""The kind of an error of another package, and its whole text in one line.

    Example:
      >>> one_line(OSError("no access:\n  to a")), one_line(ValueError())
      ('OSError: no access: to a', 'ValueError')
    """
    kind, text = type(error).__name__, " ".join(str(error).split())
    return f"{kind}: {text}" if text else kind


_LONGEST = 160  # characters of a line that quotes another package
