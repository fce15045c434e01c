"""What a comparison compares: `plan.json`, which a resumed comparison must agree with."""

from __future__ import annotations

import datetime
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

from snm.compare.records import read_record
from snm.data.dataset import Dataset
from snm.errors import InputError
from snm.machine.cores import num_cores
from snm.machine.versions import environment_record
from snm.system.files.atomic import partial_path
from snm.system.files.locks import LOCK

__all__ = ["PLAN", "check_same_plan", "describe"]

PLAN = "plan.json"
"""File of a comparison with the result of `Campaign.plan`."""


def check_same_plan(out: Path, plan: dict[str, Any]) -> None:
    """Checks that a folder is new, empty, or a comparison of the same data and settings.

    Seeds and arms may have been added.

    Raises:
      InputError: it is not.
    """
    path = out / PLAN
    if not path.exists():
        # A command that was killed while it wrote the plan leaves a partial file.
        own_files = (LOCK, partial_path(path).name)
        others = [p.name for p in out.iterdir() if p.name not in own_files]
        if others:
            found = f"{others[0]} in a folder that is no comparison"
            raise InputError(f"--out {out}", found, "a new or empty folder")
        return
    stored = read_record(path)
    if stored.get("sha256") != plan["sha256"]:
        found = f"a comparison of other data ({stored.get('data')})"
        raise InputError(f"--out {out}", found, "the same data: choose another folder")
    old, new = stored.get("settings") or {}, plan["settings"]
    for name in {**new, **old}:
        if old.get(name) != new.get(name):
            found = f"a comparison with {name} = {old.get(name)!r}"
            raise InputError(f"--out {out}", found, f"{new.get(name)!r}: choose another folder")


def describe(dataset: Dataset, plan: dict[str, Any]) -> dict[str, Any]:
    """The part of `results.json` that is known before the first run."""
    assert dataset.test is not None
    environment = environment_record()
    return {
        "command": shlex.join(["snm", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "data": {
            "name": dataset.name,
            "sha256": dataset.sha256,
            "points": dataset.train.num_points,
            "test_points": dataset.test.num_points,
            "features": dataset.train.num_features,
            "labels": dataset.train.num_labels,
        },
        "plan": {k: v for k, v in plan.items() if k not in ("data", "sha256")},
        "device": environment["device"],
        "versions": environment["versions"],
        "machine": {"cores": num_cores(), "architecture": platform.machine()},
    }
