"""The result of one check."""

from __future__ import annotations

import dataclasses
from typing import Literal

__all__ = ["PERMIT", "Finding"]

PERMIT = "give this user the right to read it"
"""The advice on a file that may not be read."""

Level = Literal["ok", "note", "warning", "error"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
      level: `ok`; `note`, worth knowing; `warning`, results will be worse; `error`, training will
        fail.
      what: the subject of the check, in one or two words.
      found: the result, in one sentence.
      advice: what to do about it; empty if there is nothing to do.
    """

    level: Level
    what: str
    found: str
    advice: str = ""
