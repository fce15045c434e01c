"""Bad input raises one error: where, what was found, what was expected. A stop raises another."""

from __future__ import annotations

import re

__all__ = ["STOPPED", "InputError", "StoppedError", "flag_of"]


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
