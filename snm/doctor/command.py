"""`snm doctor` on the command line; everything heavy is imported when it runs."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from tyro.conf import Positional, arg

__all__ = ["Doctor"]


@dataclasses.dataclass
class Doctor:
    """Examine a data set or a run, and this machine; say what is wrong, and what to do about it.

    Exits with 1 where training (of a data set) or prediction (by a run) would fail.

    For example:

      snm doctor path/to/eurlex
      snm doctor runs/eurlex
      snm doctor path/to/eurlex --json
    """

    path: Annotated[Positional[str], arg(metavar="DATA|RUN")]
    """Folder of a data set or of a run, or `synthetic`."""
    json: bool = False
    """Print one JSON object."""

    def __call__(self) -> None:
        """Runs it."""
        from snm.doctor.cli import run_doctor
        from snm.system.cache_folder import keep_programs

        keep_programs()
        run_doctor(self.path, as_json=self.json)
