"""Bad input raises one error: where, what was found, what was expected. A stop raises another.

And the words of such lines.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

__all__ = [
    "STOPPED", "InputError", "StoppedError", "counted", "duration", "first_line", "flag_of",
    "format_bytes", "nearest", "one_line", "pip_install",
]  # fmt: skip


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


def flag_of(name: str) -> str:
    """The option of a field or setting, as `InputError` takes it.

    Example:
      >>> flag_of("batch_size")
      '--batch-size'
    """
    return "--" + name.replace("_", "-")


class InputError(ValueError):
    """Input that cannot be used as it is: a file, an option or a run folder.

    Its text is one line that a person can act on. The command line prints it and exits with
    status 2; in Python it is an ordinary `ValueError`. Who raises it names a setting by its flag;
    Python's text names the argument instead.

    Attributes:
      as_flags: the text of the command line.

    Example:
      >>> str(InputError("train.txt:7", "feature index 12", "an index below 10"))
      'train.txt:7: found feature index 12, expected an index below 10'
      >>> error = InputError("--batch-size", "0", "1 or more, or --no-bias")
      >>> error.as_flags
      '--batch-size: found 0, expected 1 or more, or --no-bias'
      >>> str(error)
      'batch_size: found 0, expected 1 or more, or bias=False'
    """

    def __init__(self, where: str, found: str, expected: str):
        self.where, self.found, self.expected = where, found, expected
        # A name from a file may hold line ends.
        self.as_flags = _LINE_END.sub(
            lambda end: ascii(end[0])[1:-1], f"{where}: found {found}, expected {expected}"
        )
        # A command in backticks stays one.
        parts = self.as_flags.split("`")
        parts[::2] = [_FLAG.sub(_as_argument, part) for part in parts[::2]]
        super().__init__("`".join(parts))


_LINE_END = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_FLAG = re.compile(r"(?<![\w/-])--(no-)?([a-z][a-z-]*[a-z]|[a-z])(?![\w./])")


def _as_argument(flag: re.Match[str]) -> str:
    name = flag[2].replace("-", "_")
    return f"{name}=False" if flag[1] else name


STOPPED = 75
"""Exit status after a checkpoint was written on request: EX_TEMPFAIL of sysexits.h, try again."""


class StoppedError(Exception):
    """A run ended early because it was asked to; the same call goes on from where it stands.

    Args:
      step: that its newest checkpoint holds.
      kept: what there is of it, in words, where that is no checkpoint.

    Attributes:
      step: as above.
    """

    def __init__(self, step: int = 0, kept: str | None = None):
        self.step = step
        super().__init__(f"stopped as asked, with {kept or f'a checkpoint of step {step}'}")
