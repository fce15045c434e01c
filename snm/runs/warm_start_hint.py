"""How to continue from the parameters of a run: what verbs that made data or a run print."""

from __future__ import annotations

import shlex
from pathlib import Path

from snm.config.settings import read_config
from snm.runs.manifest import CONFIG

__all__ = ["IF_ALL_POINTS", "warm_start_flags"]

IF_ALL_POINTS = "if it has all points, old and new: trained on new ones alone, a run forgets"
"""The condition under which data can be trained on with `warm_start_flags`."""


def warm_start_flags(run: Path) -> str:
    """The flags of `snm train` that continue from the parameters of a run, quoted for a shell."""
    settings = run / CONFIG
    flags = f"--config {shlex.quote(str(settings))} --warm-start {shlex.quote(str(run))}"
    if settings.exists() and read_config(settings).memory == "on":
        flags += " --memory auto --logit-adjustment auto"  # other data may have too few points
    return flags
