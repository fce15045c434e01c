"""Times of interactions: as numbers, and whether rows come in their order."""

from __future__ import annotations

import datetime
import math
import re
import shlex
from collections.abc import Mapping
from typing import Any

from snm.data.formats.records import parse_number
from snm.errors import InputError

__all__ = ["A_TIME", "Disorder", "Times", "parse_time"]

A_TIME = "a number, or a date such as 2024-05-31T12:00"
"""What is expected of a time."""

_NAMES = ("time", "timestamp", "ts", "date", "datetime")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Disorder:
    """Notices that a log has a column of times, and a user whose rows are not in their order.

    Args:
      fields: the columns of users and items.

    Example:
      >>> disorder = Disorder(("user", "item"))
      >>> disorder.choose({"user": "a", "item": "x", "day": "2024-05-31"})
      'day'
      >>> for user, day in (("a", "2024-05-31"), ("b", "2024-05-30"), ("a", "2024-05-01")):
      ...     disorder.add(user, day)
      >>> disorder.hint
      "rows are not in the order of 'day', which looks like times: --time day orders them"
    """

    def __init__(self, fields: tuple[str, ...]):
        self._fields = fields
        self._column: str | None = None
        self._found = self._ended = False
        self._last = dict[str, float]()  # by user

    def choose(self, row: Mapping[str, str]) -> str | None:
        """The first column that is named like times, or else that holds dates.

        Args:
          row: the first row, by column.
        """
        others = {name: text for name, text in row.items() if name not in self._fields}
        named = (name for name in others if name.strip().lower() in _NAMES)
        dated = (name for name, text in others.items() if _DATE.match(text))
        self._column = next(named, None) or next(dated, None)
        return self._column

    def add(self, user: str, text: str) -> None:
        """Looks at the next row; a time that cannot be read ends the search.

        Args:
          user: its user.
          text: what it has in the column of `choose`.
        """
        if self._found or self._ended:
            return
        time = parse_time(text)
        self._ended = math.isnan(time)
        self._found = time < self._last.get(user, -math.inf)
        self._last[user] = time

    @property
    def hint(self) -> str | None:
        """What to tell a user, after all rows."""
        if not self._found or self._column is None:
            return None
        shown = shlex.quote(self._column)
        return (
            f"rows are not in the order of {self._column!r}, which looks like times: --time "
            f"{shown} orders them"
        )


def parse_time(text: str) -> float:
    """A number, or the seconds of a date of ISO 8601; NaN of anything else."""
    number = parse_number(text)
    return _parse_date(text) if math.isnan(number) else number


class Times:
    """Times as numbers: as they are, or seconds of dates; a file has one of the two.

    Args:
      field: the name of the column, for messages.
      like: a time that the file is compared with (`--test-from`), and so of the same kind; None
        takes the kind of the first row.
    """

    def __init__(self, field: str | None, like: str | None = None):
        self._field = field
        self._are_dates = None if like is None else math.isnan(parse_number(like))
        self._first = "the first row" if like is None else "--test-from"

    def __call__(self, where: str, text: str) -> float:
        """The time that a text is.

        Args:
          where: file and line, for messages.
          text: a number or a date.

        Raises:
          InputError: neither, or not what the first time was.
        """
        number, expected = parse_number(text), A_TIME
        if self._are_dates is None:
            self._are_dates = math.isnan(number)
        else:
            expected = f"a {'date' if self._are_dates else 'number'}, as in {self._first}"
        time = _parse_date(text) if self._are_dates else number
        if math.isnan(time):
            raise InputError(where, f"{self._field}: {ascii(text)[:40]}", expected)
        return time


def _parse_date(text: str) -> float:
    """The seconds of a date of ISO 8601, in UTC where it names no zone; NaN of anything else."""
    try:
        date: Any = datetime.datetime.fromisoformat(text)
    except ValueError:
        return math.nan
    return float((date if date.tzinfo else date.replace(tzinfo=datetime.UTC)).timestamp())
