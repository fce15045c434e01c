"""Runs the examination and prints it."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from rich.text import Text

from snm.doctor.environment import examine_environment
from snm.doctor.findings import Finding
from snm.doctor.of_data import examine_data
from snm.doctor.of_run import examine_run
from snm.runs.folder import RunFolder
from snm.system.terminal import console

__all__ = ["run_doctor"]

_SIGNS = {
    "ok": ("ok", "green"),
    "note": ("note", "cyan"),
    "warning": ("warning", "yellow"),
    "error": ("error", "bold red"),
}


def run_doctor(path: str, *, as_json: bool) -> None:
    """Examines a data set or a run, and the machine; exits with 1 where something will fail.

    Raises:
      InputError: neither of them is there.
      SystemExit: with status 1, where a finding is an error.
    """
    folder = RunFolder(Path(path))
    is_run = folder.config.exists() or folder.facts.exists()
    facts: dict[str, Any] = {}
    with console.status(Text(f"examining {path}")):
        if is_run:
            findings = examine_run(folder.path)
        else:
            findings, facts = examine_data(path)
        findings += examine_environment()
    failed = any(finding.level == "error" for finding in findings)
    if as_json:
        found = {
            "path": path,
            "kind": "run" if is_run else "data",
            "findings": [dataclasses.asdict(finding) for finding in findings],
            "statistics": facts,
        }
        print(json.dumps(found))
    else:
        _print(findings)
    if failed:
        sys.exit(1)


def _print(findings: list[Finding]) -> None:
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        sign, style = _SIGNS[finding.level]
        line = Text.assemble((f"{sign:<8}", style), f"{finding.what:<{width}}  ", finding.found)
        console.print(line, soft_wrap=True)
        if finding.advice:
            advice = Text.assemble(" " * (10 + width), ("-> ", style), finding.advice)
            console.print(advice, soft_wrap=True)
    counts = {level: sum(f.level == level for f in findings) for level in ("error", "warning")}
    if not any(counts.values()):
        console.print("nothing is wrong")
    else:
        said = [f"{n} {level}{'s' if n > 1 else ''}" for level, n in counts.items() if n]
        console.print(", ".join(said))
