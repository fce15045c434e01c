"""Exports a model as named arrays, with a manifest that gives the formula of the scores."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from snm.data.vectorizer import CLASSES, Vectorizer
from snm.export.memory_arrays import by_feature_arrays, stored_arrays, voting_entries
from snm.model.encoder import ENCODERS
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder
from snm.system.imports import requires_extra
from snm.tables.int8 import int8_rows
from snm.tables.rounding import as_float

__all__ = [
    "FORMAT",
    "class_rows_sha256",
    "copy_run_files",
    "make_manifest",
    "model_arrays",
    "run_origin",
    "write_arrays",
    "write_model",
]

FORMAT = "snm-export-1"
_HASHED_ROWS = 1 << 16  # rows at once, so that bfloat16 tables are not copied whole


def model_arrays(predictor: Predictor) -> dict[str, np.ndarray]:
    """The parameters that prediction needs.

    Returns:
      feature_rows float32 [d, members * dim]; class_rows float32 [K, members * dim];
      bias float32 [K], zeros if the model has none; multipliers float32 [members];
      tower float32 [members, dim, dim], if the encoder has a dense layer;
      idf float32 [d], if the weighting is tfidf; mean and spread float32 [d], if it is standard.
    """
    model, state = predictor.model, predictor.state
    head = state.head
    bias = np.zeros(model.spec.num_labels, np.float32) if head.bias is None else head.bias
    arrays = {
        "feature_rows": as_float(state.features.rows),
        "class_rows": as_float(head.table.rows),
        "bias": bias,
        "multipliers": np.exp(np.atleast_1d(np.asarray(head.log_scale))),
    }
    for leaf in jax.tree.leaves(state.tower):  # at most one layer, without a bias
        arrays["tower"] = np.asarray(leaf).reshape(model.members, model.dim, model.dim)
    for name in ("idf", "mean", "spread"):
        if (fitted := getattr(predictor.weighting, name)) is not None:
            arrays[name] = fitted
    return {name: np.ascontiguousarray(value, np.float32) for name, value in arrays.items()}


def class_rows_sha256(predictor: Predictor) -> str:
    """The SHA-256 of class rows, as float32, and biases, which identifies the model of an index."""
    total = hashlib.sha256()
    rows, bias = np.asarray(predictor.state.head.table.rows), predictor.state.head.bias
    for first in range(0, len(rows), _HASHED_ROWS):
        piece = rows[first : first + _HASHED_ROWS]
        if piece.dtype != np.float32:
            piece = np.asarray(as_float(jnp.asarray(piece)))
        total.update(np.ascontiguousarray(piece).data)
    if bias is not None:
        total.update(np.ascontiguousarray(bias).data)
    return total.hexdigest()


def run_origin(run: Path) -> dict[str, Any]:
    """The entries of a manifest that describe the run of an export."""
    folder = RunFolder(run)
    origin = folder.read_origin()
    return {
        "run": run.resolve().name,
        "finished": folder.finished(),
        "data": {"source": origin.data, "sha256": origin.sha256},
    }


def make_manifest(
    predictor: Predictor, origin: dict[str, Any], rows: str = "float32"
) -> dict[str, Any]:
    """The manifest of an export: its sizes, its origin, and the formula of a score.

    Args:
      predictor: the model.
      origin: JSON values that describe its source, such as `run_origin(run)`.
      rows: how feature rows and class rows are stored, as in `write_model`.
    """
    from snm.machine.versions import versions

    model, text, stored = predictor.model, {}, {}
    formula = ENCODERS[model.encoder].formula
    if rows == "int8":
        stored = {"rows": "each row of feature_rows and class_rows is its scale * its codes"}
    if predictor.vectorizer is not None:
        text = {"text": _text_entries(predictor.vectorizer, RunFolder(Path()).vectorizer.name)}
    return {
        "format": FORMAT,
        **origin,
        "num_features": model.num_features,
        "num_labels": model.spec.num_labels,
        "dim": model.dim,
        "members": model.members,
        "encoder": model.encoder,
        "weighting": predictor.weighting.kind,
        "class_rows_sha256": class_rows_sha256(predictor),
        **text,
        "score": {
            **stored,
            "weighting": {
                "tfidf": "t = where(v < 1, v, 1 + log(v)) * idf; x = t / |t|",
                "standard": "t = (v - mean) / spread, of all features; x = t / |t|",
                "l2": "x = v / |v|",
                "none": "x = v",
            }[predictor.weighting.kind],
            "of each member": f"h = x @ feature_rows; q = {formula}; q = q / |q|",
            "score": "sum over members of multiplier * (q @ class_rows.T), plus bias; the columns "
            "of feature_rows and class_rows are the members' side by side",
        },
        "seen": "drop: a label with the number of a point's own feature is no answer to it"
        if model.drop_seen
        else "keep",
        "versions": versions(),
    }


def _text_entries(vectorizer: Vectorizer, file: str) -> dict[str, Any]:
    """Describes how a text becomes the features v of the manifest's formulas."""
    name = next(name for name, kind in CLASSES.items() if kind == vectorizer.kind)
    note = ", each item with single blanks inside" if vectorizer.item_separator else ""
    if vectorizer.vocabulary is not None:
        what = "vocabulary and idf are" if vectorizer.kind == "tfidf" else "vocabulary is"
        note += f"; its {what} in {file}"
    return {
        "file": file,
        "class": f"sklearn.feature_extraction.text.{name}",
        "options": vectorizer.options,
        "v": f"the row that the class, with the options, makes of the text in form NFC{note}",
    }


def write_model(
    predictor: Predictor, form: str, folder: Path, rows: str = "float32"
) -> dict[str, Any]:
    """Writes the arrays of a model and of its memory.

    Args:
      predictor: the model.
      form: npy, npz or safetensors; with npy, a memory has its features by feature too, to be
        mapped.
      folder: the folder to write to.
      rows: how feature rows and class rows are stored, float32 or int8.

    Returns:
      Their entries of the manifest.
    """
    arrays, memory = model_arrays(predictor), predictor.memory
    if rows == "int8":
        arrays |= {name: int8_rows(arrays[name]) for name in ("feature_rows", "class_rows")}
    log_multipliers = np.atleast_1d(np.asarray(predictor.state.head.log_scale))
    entries: dict[str, Any] = {
        "file": write_arrays(arrays, form, folder),
        "rows": rows,
        "log_multipliers": log_multipliers.tolist(),  # exactly those of the run
    }
    entries |= _calibration_entries(predictor)
    if memory is not None:
        stored = stored_arrays(memory) | (by_feature_arrays(memory) if form == "npy" else {})
        file = write_arrays(stored, form, folder, "memory")
        entries["memory"] = {"file": file, "arrays": sorted(stored), **voting_entries(memory)}
    return entries


def _calibration_entries(predictor: Predictor) -> dict[str, Any]:
    """The entries of a manifest for probabilities: the curves, and their formula; maybe none."""
    if predictor.calibration is None:
        return {}
    return {
        "calibration": dataclasses.asdict(predictor.calibration),
        "probability": {
            "z": "with s_r = score / members of the label at rank r, from 0, by scores of the "
            "point with the votes of the memory: z_r = weights . [s_r, log(1 + r), s_0 clipped to "
            "best_scores, 1 if r = 0 else 0]",
            "p": "the linear interpolation of probabilities at z_r between the knots, and the "
            "first or last of probabilities outside",
            "of all labels": "p of `calibration`.`ranked`, and at most that of the rank before",
            "of some labels": "p of `calibration`.`alone`, each from its score alone",
        },
    }


def copy_run_files(run: RunFolder, out: Path) -> None:
    """Copies the label names, the vectorizer and the weighting of a run, as far as it has them."""
    for file in (run.names, run.vectorizer, run.fitted_weighting):
        if run.has(file):
            shutil.copyfile(run.checked(file), out / file.name)


def write_arrays(
    arrays: dict[str, np.ndarray], form: str, folder: Path, stem: str = "model"
) -> str:
    """Writes arrays as npy, npz or safetensors.

    Returns:
      The file name, `model.npz` or `model.safetensors`; for npy, which has one file per array, the
      pattern of the names, `model-{array}.npy`.

    Raises:
      InputError: the package safetensors is not installed.
      OSError: a file cannot be written.
    """
    if form == "npy":
        for name, array in arrays.items():
            np.save(folder / f"{stem}-{name}.npy", array, allow_pickle=False)
        return f"{stem}-{{array}}.npy"
    file = f"{stem}.{form}"
    if form == "npz":
        np.savez(folder / file, allow_pickle=False, **arrays)
        return file
    with requires_extra("--to safetensors", "export"):
        from safetensors import SafetensorError
        from safetensors.numpy import save_file
    # save_file replaces the file by a private one; restore the permissions of the other files.
    path = folder / file
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(arrays, path)
    except SafetensorError as error:  # the errno is only in its text
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
    path.chmod(mode)
    return file
