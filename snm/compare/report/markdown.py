"""The tables of a comparison as Markdown."""

from __future__ import annotations

from typing import Any

from snm.compare.report.tables import all_sheets
from snm.text import counted, escape_controls

__all__ = ["device_words", "markdown"]


def markdown(results: dict[str, Any]) -> str:
    """The content of `table.md`: all tables, with the command and the environment."""
    about = results["data"]
    lines = [
        f"# {about['name']}: SNM against negative sampling",
        "",
        f"    {results['command']}",
        "",
        f"{about['points']:,} training and {counted(about['test_points'], 'test point')}, "
        f"{counted(about['features'], 'feature')}, {counted(about['labels'], 'label')} (SHA-256 "
        f"{about['sha256'][:12]}); {device_words(results['device'])}, "
        f"jax {results['versions']['jax']}, {results['date']}.",
    ]
    for sheet in all_sheets(results):
        lines += ["", f"## {sheet.title}", "", sheet.note, ""]
        lines.append("| " + " | ".join(sheet.columns) + " |")
        lines.append("|---|" + "---:|" * (len(sheet.columns) - 1))
        lines += ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in sheet.rows]
    return escape_controls("\n".join(lines) + "\n")  # the name of a folder may not be valid UTF-8


def device_words(device: str) -> str:
    """Platform and kind of a device; only the platform if both are equal.

    Example:
      >>> device_words("cpu: cpu"), device_words("gpu: NVIDIA H100")
      ('cpu', 'gpu: NVIDIA H100')
    """
    platform, _, kind = device.partition(": ")
    return platform if kind == platform else device


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
