"""Writes and opens a hub folder: safetensors, `config.json` and a model card.

- `model.safetensors`: the arrays of `arrays.model_arrays`
- `memory.safetensors`: the arrays of `memory_arrays.stored_arrays`, if the run has a memory
- `config.json`: sizes, settings, the formula of a score, and checksums of the other files
- `README.md`: the model card, which anybody may edit: it has no checksum
- `weighting.npz`, and `labels.txt` and `vectorizer.json` if the run has them

Nothing that is read can run code: arrays come without pickle, and the rest is text.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from snm.config.resolved import ResolvedConfig, parse_resolved
from snm.data.formats.line_files import read_names
from snm.errors import InputError
from snm.export.arrays import copy_run_files, make_manifest, run_origin, write_model
from snm.export.from_arrays import ExpectedManifest, build_predictor, matches_shape
from snm.export.hub.card import Card, model_card
from snm.export.manifest import ExportManifest, read_manifest, write_manifest
from snm.prediction.predictor import Predictor
from snm.runs.folder import RunFolder
from snm.system.faults import describe_error
from snm.system.files import disk
from snm.system.imports import requires_extra

__all__ = ["CONFIG", "FILES", "is_hub", "open_hub", "write_hub"]

CONFIG = "config.json"
FILES = (CONFIG, "README.md", "model.safetensors", "memory.safetensors", "weighting.npz",
         "labels.txt", "vectorizer.json")  # fmt: skip
"""The files of a hub folder that `snm` reads and writes; others are ignored."""

_FORMAT = "snm-hub-1"
_EXPECTED = "what `snm export --to hub` wrote"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _HubManifest(ExportManifest):
    rows: Literal["float32"]
    settings: dict[str, Any]


def is_hub(folder: Path) -> bool:
    """Whether a folder looks like a hub folder."""
    return (folder / CONFIG).is_file()


def write_hub(
    predictor: Predictor,
    run: Path,
    folder: Path,
    *,
    license: str | None = None,
    datasets: tuple[str, ...] = (),
    repository: str | None = None,
) -> None:
    """Writes a hub folder.

    Args:
      predictor: the model, with its memory.
      run: the folder of its run.
      folder: the existing folder to write to.
      license: its id on the Hub; None if it is unknown.
      datasets: ids of data sets on the Hub that the model was trained on.
      repository: `owner/name`, if it will be on the Hub.

    Raises:
      InputError: the package safetensors is not installed.
    """
    source, memory = RunFolder(run), predictor.memory
    settings, origin = source.settings(), source.read_origin()
    finished = source.finished()
    result = source.read_result() if finished else {"metrics": {}}
    name = repository.split("/")[-1] if repository else run.resolve().name
    data = {"name": Path(origin.data).name, "sha256": origin.sha256}  # no path of a machine
    manifest: dict[str, Any] = {
        **make_manifest(predictor, run_origin(run)),
        "format": _FORMAT,
        "model_type": "snm",
        "library_name": "snm",
        "run": name,
        "data": data,
        "settings": dataclasses.asdict(settings),
        **write_model(predictor, "safetensors", folder),
    }
    copy_run_files(source, folder)
    write_manifest(folder, manifest, CONFIG)
    points = result.get("data", {}).get("points")
    card = Card(
        name=name,
        data=data["name"],
        counts={
            **({} if points is None else {"training point": points}),
            "label": manifest["num_labels"],
            "feature": manifest["num_features"],
        },
        metrics=result["metrics"],
        settings=settings,
        reads_texts=predictor.vectorizer is not None,
        stored=0 if memory is None else len(memory.rows),
        license=license,
        datasets=datasets,
        repository=repository,
        finished=finished,
    )
    disk.write(folder / "README.md", model_card(card).encode())


def open_hub(folder: Path, *, memory: bool = True, verify: bool = True) -> Predictor:
    """Opens a hub folder; its arrays are copied into memory.

    Args:
      folder: the export, or a copy of it from the Hub.
      memory: as in `runs.stored_run.load`.
      verify: compare the arrays with their checksums; other files are always compared.

    Raises:
      InputError: no such folder, damage, or the package safetensors is not installed.
    """
    manifest = read_manifest(folder, "hub", verify=verify, name=CONFIG)
    where = folder / CONFIG
    return build_predictor(
        folder,
        where,
        manifest,
        _settings(where, manifest),
        functools.partial(_array, folder),
        read_names,
        ExpectedManifest(_FORMAT, _HubManifest, _EXPECTED),
        memory=memory,
        full_check=True,
    )


def _settings(where: Path, manifest: dict[str, Any]) -> ResolvedConfig:
    settings = manifest.get("settings")
    if not isinstance(settings, dict):
        raise InputError(f"{where}: settings", "no object", _EXPECTED)
    try:
        return parse_resolved(settings, f"{where}: settings")
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:  # such as a list instead of a name
        raise InputError(f"{where}: settings", f"{error!r:.80}", _EXPECTED) from error


def _array(
    folder: Path, stem: str, name: str, dtype: DTypeLike | None, shape: tuple[int, ...]
) -> NDArray:
    """An array of a safetensors file; see `from_arrays.ReadArray`."""
    with requires_extra(str(folder), "hub"):
        from safetensors import SafetensorError, safe_open
    path = folder / f"{stem}.safetensors"
    try:
        with safe_open(path, framework="np") as arrays:
            stored = tuple(arrays.get_slice(name).get_shape())
            if not matches_shape(stored, shape):
                found = f"{name} {stored}"
                raise InputError(str(path), found, f"{shape}, as config.json says")
            array = arrays.get_tensor(name)
    except InputError:
        raise
    except OSError as error:
        reason = describe_error(error)
        raise InputError(str(path), reason, _EXPECTED) from error
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        # The last two: a dtype that NumPy lacks, such as bfloat16.
        raise InputError(str(path), f"{str(error)[:80]}", _EXPECTED) from error
    if dtype not in (None, array.dtype):
        raise InputError(str(path), f"{name} of {array.dtype}", f"{np.dtype(dtype)}")
    return array
