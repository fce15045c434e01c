"""Exports a fitted estimator to a folder that the commands take in place of a run."""

from __future__ import annotations

from pathlib import Path

from snm.config.resolved import ResolvedConfig
from snm.errors import InputError
from snm.estimator.targets import Targets
from snm.export.arrays import make_manifest
from snm.export.manifest import write_manifest
from snm.export.npy.folder import write_npy
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder
from snm.system.files import disk
from snm.system.files.atomic import atomic_folder

__all__ = ["write_folder"]


def write_folder(predictor: Predictor, config: ResolvedConfig, targets: Targets, out: Path) -> None:
    """Writes what `snm export --to npy` would of a run.

    Args:
      predictor: the fitted model.
      config: the settings of the fit.
      targets: their classes are the names of the labels, if they are not numbers of columns.
      out: the folder; it must not exist.

    Raises:
      InputError: the folder exists or cannot be written, or a class whose name has a line break.
    """
    if out.exists():
        raise InputError("folder", f"{out}, which is there", "a new folder")
    classes = None
    if targets.named:
        classes = [str(label) for label in targets.classes]
        if broken := [name for name in classes if "\n" in name or "\r" in name]:
            raise InputError("classes", f"a line break in {broken[0]!r:.40}", "names of one line")
    with atomic_folder("folder", out) as partial:
        files, names = RunFolder(partial), None
        if classes is not None:
            names = files.names
            disk.write(names, "".join(f"{name}\n" for name in classes).encode())
        predictor.weighting.save(files.fitted_weighting)
        entries = write_npy(predictor, config, names, partial)
        write_manifest(partial, {**make_manifest(predictor, {"run": "SNMClassifier"}), **entries})
