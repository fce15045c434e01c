"""One thing that was looked at, and what came of it."""

from __future__ import annotations

import dataclasses
from typing import Literal

__all__ = ["Finding", "Level"]

Level = Literal["ok", "note", "warning", "error"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """What was found in one place.

    Attributes:
      level: `ok`; `note`, worth knowing; `warning`, the results will suffer; `error`, it will fail.
      what: what was looked at, in a word or two.
      found: one sentence.
      advice: what to do about it; empty where there is nothing to do.
    """

    level: Level
    what: str
    found: str
    advice: str = ""
