"""Checks a run folder: its files, checkpoints, parameters, data and versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from snm.checkpoints.manifest import DamagedError
from snm.config.resolved import ResolvedConfig
from snm.data.load import load as load_dataset
from snm.doctor.findings import PERMIT, Finding
from snm.errors import InputError
from snm.machine.platform import device_error
from snm.machine.versions import package_version
from snm.runs.folder import RunFolder
from snm.runs.members import refit_phase, train_phase
from snm.runs.schema import RunOrigin
from snm.runs.stored_run import load
from snm.stores.objects import StoreError
from snm.system.faults import is_out_of_memory
from snm.text import counted, first_line, format_bytes
from snm.trainer.run_data import training_data

__all__ = ["examine_run"]


def examine_run(path: Path) -> Iterator[Finding]:
    """Checks the settings, checkpoints, data and versions of a run, and whether it can predict."""
    folder = RunFolder(path)
    try:
        config, origin = folder.settings(), folder.read_origin()
        finished = folder.finished()
        result = folder.read_result() if finished else {}
    except InputError as error:
        yield _damage_finding("settings", error, "the folder is damaged: train anew")
        return
    labels = counted(origin.num_labels, "label")
    shapes = f"{counted(origin.num_features, 'feature')}, {labels}"
    yield Finding(
        "ok", "settings", f"{shapes}, dim {config.dim}, {counted(config.members, 'member')}"
    )
    yield from _check_checkpoints(folder, config, finished)
    yield from _check_prediction(folder, config, origin, finished)
    yield from _check_data(origin)
    yield from _check_versions(result)


def _check_checkpoints(
    folder: RunFolder, config: ResolvedConfig, finished: bool
) -> Iterator[Finding]:
    saved = []
    for member in range(1, config.members + 1):
        of_member = "" if config.members == 1 else f" of member {member}"
        for what, phase in (("training", train_phase(member)), ("refit", refit_phase(member))):
            step = folder.checkpoints(config.keep_checkpoints, phase).latest()
            if step is not None:
                saved.append(f"step {step:,} of the {what}{of_member}")
    if not saved:
        advice = "the same `snm train` command starts again"
        yield Finding("error" if finished else "note", "checkpoints", "there is none", advice)
        return
    if finished:
        yield Finding("ok", "checkpoints", f"finished: saved at {', '.join(saved)}")
    else:
        last = _last_line(folder.log)
        when = f"; the last line of the log is of step {last['step']}" if "step" in last else ""
        yield Finding(
            "note",
            "checkpoints",
            f"not finished: saved at {', '.join(saved)}{when}",
            "the same `snm train` command continues from there",
        )


def _last_line(log: Path) -> dict[str, Any]:
    if not log.exists():
        return {}
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - (1 << 16)))
        lines = stream.read().splitlines()
    for line in reversed(lines):
        try:
            return dict(json.loads(line))
        except ValueError:  # a line cut off by a kill
            continue
    return {}


def _damage_finding(what: str, error: InputError, default_advice: str) -> Finding:
    """An error with the remedy in its text, or with `default_advice` if it has none."""
    if isinstance(error.__cause__, PermissionError):
        return Finding("error", what, error.as_flags, PERMIT)
    if isinstance(error, DamagedError):
        default_advice = "the same `snm train` command goes on from the checkpoint before it"
    remedy = error.expected.partition(": ")[2]
    if "`snm train`" not in remedy:
        return Finding("error", what, error.as_flags, default_advice)
    return Finding("error", what, error.as_flags.removesuffix(f": {remedy}"), remedy)


def _check_prediction(
    folder: RunFolder, config: ResolvedConfig, origin: RunOrigin, finished: bool
) -> Iterator[Finding]:
    import jax
    from scipy.sparse import csr_matrix

    if device_error() is not None:  # JAX cannot start; the environment checks report why
        return
    first = folder.checkpoints(config.keep_checkpoints, train_phase(1))
    if not finished and first.latest() is None:
        advice = "the same `snm train` command goes on"
        yield Finding("note", "model", "none yet: member 1 has no checkpoint", advice)
        return
    try:
        predictor = load(folder.path)
    except InputError as error:
        yield _damage_finding("model", error, "train anew into another folder")
        return
    except Exception as error:  # a damaged checkpoint can raise any error
        if is_out_of_memory(error):
            raise
        found = f"a checkpoint cannot be read: {first_line(error)}"
        yield Finding("error", "model", found, "train anew")
        return
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(predictor.state)]
    if not all(np.isfinite(leaf).all() for leaf in leaves):
        advice = "train anew with a lower --learning-rate"
        yield Finding("error", "model", "some parameters are not finite", advice)
        return
    rows = csr_matrix((1, origin.num_features), dtype=np.float32)
    predictor.predict(rows, 1)
    size = sum(leaf.nbytes for leaf in leaves)
    found = f"{format_bytes(size)} of parameters, all finite; the model predicts"
    yield Finding("ok", "model", found)


def _check_data(origin: RunOrigin) -> Iterator[Finding]:
    source = origin.data
    try:
        dataset = training_data(origin) if origin.in_memory else load_dataset(source)
    except (InputError, StoreError) as error:
        found = getattr(error, "as_flags", str(error))
        yield Finding(
            "warning", "data", found, "`snm evaluate RUN --data DATA` takes another place"
        )
        return
    if dataset.sha256 != origin.sha256:
        yield Finding(
            "warning",
            "data",
            f"{source} has other content than when the run was trained",
            "metrics on it are not comparable with those of the run",
        )
    else:
        yield Finding("ok", "data", f"{source} is unchanged since training")


def _check_versions(result: dict[str, Any]) -> Iterator[Finding]:
    changed = []
    for package, old in result.get("versions", {}).items():
        if package == "python":
            continue
        if (now := package_version(package)) != old:
            changed.append(f"{package} {old}, now {now}")
    if changed:
        found = f"trained with {'; '.join(changed)}"
        yield Finding("note", "versions", found, "scores may differ in the last digits")
