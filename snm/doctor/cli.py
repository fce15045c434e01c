"""`snm doctor`: runs the examination and prints the findings."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from snm.errors import InputError
from snm.stores.marks import CopiedFolder
from snm.text import counted

if TYPE_CHECKING:
    from snm.doctor.findings import Finding

__all__ = ["Doctor"]

_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "bold red"}


@dataclasses.dataclass
class Doctor:
    """Find problems of a data set or a run, and of this machine, and say how to fix them.

    Exits with status 1 if training on the data set, or prediction by the run, would fail.

    For example:

      snm doctor path/to/eurlex
      snm doctor runs/eurlex
      snm doctor path/to/eurlex --json
    """

    path: Annotated[Positional[CopiedFolder[str]], arg(metavar="DATA|RUN")]
    """Folder of a data set or of a run, or `synthetic`."""
    json: bool = False
    """Print one JSON object."""

    def __call__(self) -> None:
        """Examines a data set or a run, and the machine.

        Raises:
          InputError: no data set and no run at the path.
          SystemExit: with status 1, if a finding is an error.
        """
        from snm.doctor.data_checks import examine_data
        from snm.doctor.environment import examine_environment
        from snm.doctor.run_checks import examine_run
        from snm.runs.folder import RunFolder
        from snm.system.compilation_cache import enable_compilation_cache
        from snm.system.files.checks import check_reachable
        from snm.system.terminal import waiting

        with contextlib.suppress(InputError):  # it is reported as a finding
            enable_compilation_cache()
        check_reachable(Path(self.path))
        folder = RunFolder(Path(self.path))
        is_run = folder.config.exists() or folder.origin.exists()
        facts: dict[str, Any] = {}
        with waiting(f"examining {self.path}"):
            if is_run:
                findings = list(examine_run(folder.path))
            else:
                findings, facts = examine_data(self.path)
            findings += examine_environment()
        if self.json:
            report = {
                "path": self.path,
                "kind": "run" if is_run else "data",
                "findings": [dataclasses.asdict(finding) for finding in findings],
                "statistics": facts,
            }
            print(json.dumps(report))
        else:
            _print(findings)
        if any(finding.level == "error" for finding in findings):
            sys.exit(1)


def _print(findings: list[Finding]) -> None:
    from rich.text import Text

    from snm.system.terminal import console, say

    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        style, what = _STYLES[finding.level], f"{finding.what:<{width}}  "
        say(Text.assemble((f"{finding.level:<8}", style), what, finding.found))
        if finding.advice:
            say(Text.assemble(" " * (10 + width), ("-> ", style), finding.advice))
    counts = Counter(finding.level for finding in findings)
    problems = [counted(counts[level], level) for level in ("error", "warning") if counts[level]]
    console.print(", ".join(problems) or "no problems found")
