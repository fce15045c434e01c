"""Fuzz targets: readers of exports, as functions of the bytes of one file.

The other files are valid, and checksums are not compared: an attacker would have made them fit.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.export.load import load
from snm.system.files.checksums import with_checksum

__all__ = [
    "hub_arrays",
    "hub_config",
    "mapped_array",
    "mapped_manifest",
    "seeds_of_exports",
    "with_valid_checksum",
]

FEATURES, LABELS, DIM = 3, 4, 2
_SETTINGS: dict[str, Any] = {
    "weighting": "none", "dim": DIM, "encoder": "linear", "input_dropout": 0.0, "members": 1,
    "score_scale": 1.0, "sampled": 3, "mined": 2, "epochs": 1, "learning_rate": 1.0,
}  # fmt: skip
_MANIFEST: dict[str, Any] = {
    "num_features": FEATURES, "num_labels": LABELS, "members": 1, "rows": "float32",
    "log_multipliers": [0.5],
}  # fmt: skip


def _arrays() -> dict[str, np.ndarray]:
    sizes = {"feature_rows": (FEATURES, DIM), "class_rows": (LABELS, DIM), "bias": (LABELS,)}
    return {name: np.ones(size, np.float32) for name, size in sizes.items()}


def _tensors() -> bytes:
    from safetensors.numpy import save

    return save(_arrays())


def _npy() -> bytes:
    out = io.BytesIO()
    np.save(out, _arrays()["class_rows"])
    return out.getvalue()


def _hub() -> dict[str, Any]:
    return {"format": "snm-hub-1", "settings": _SETTINGS, **_MANIFEST}


def _mapped() -> dict[str, Any]:
    return {"format": "snm-export-1", **_MANIFEST}


def seeds_of_exports() -> dict[str, bytes]:
    """Name of a target -> a valid file."""
    return {
        "hub_config": json.dumps(_hub()).encode(),
        "hub_arrays": _tensors(),
        "mapped_manifest": json.dumps(_mapped()).encode(),
        "mapped_array": _npy(),
    }


def _opened(place: Path) -> None:
    """Opens an export; what is accepted fits together, and what is not is refused in one line."""
    try:
        found = load(place, verify=False)
    except InputError as error:
        assert "\n" not in str(error), "more than one line"
        return
    model, state = found.model, found.state
    assert state.head.table.rows.shape == (model.spec.num_labels, model.dim * model.members)
    assert state.features.rows.shape == (model.num_features, model.dim * model.members)
    assert state.head.table.rows.dtype == state.features.rows.dtype == np.float32


def _place(place: Path) -> None:
    Weighting("none").save(place / "weighting.npz")


def with_valid_checksum(raw: bytes, **more: Any) -> bytes:
    """A JSON object with a valid checksum, so that a reader does not stop there; or the bytes."""
    try:
        return json.dumps(with_checksum({**json.loads(raw), **more})).encode()
    except (ValueError, TypeError, RecursionError):
        return raw


def hub_config(place: Path, raw: bytes) -> None:
    """`config.json` of a hub folder."""
    _place(place)
    (place / "model.safetensors").write_bytes(_tensors())
    for content in (raw, with_valid_checksum(raw, files={})):
        (place / "config.json").write_bytes(content)
        _opened(place)


def hub_arrays(place: Path, raw: bytes) -> None:
    """`model.safetensors` of a hub folder."""
    _place(place)
    (place / "config.json").write_bytes(with_valid_checksum(json.dumps(_hub()).encode(), files={}))
    (place / "model.safetensors").write_bytes(raw)
    _opened(place)


def _mapped_files(place: Path) -> None:
    import tomli_w

    _place(place)
    (place / "settings.toml").write_text(tomli_w.dumps(_SETTINGS))
    for name, array in _arrays().items():
        np.save(place / f"model-{name}.npy", array)


def mapped_manifest(place: Path, raw: bytes) -> None:
    """`manifest.json` of a mapped export."""
    _mapped_files(place)
    for content in (raw, with_valid_checksum(raw, files={})):
        (place / "manifest.json").write_bytes(content)
        _opened(place)


def mapped_array(place: Path, raw: bytes) -> None:
    """An array of a mapped export."""
    _mapped_files(place)
    manifest = with_valid_checksum(json.dumps(_mapped()).encode(), files={})
    (place / "manifest.json").write_bytes(manifest)
    (place / "model-class_rows.npy").write_bytes(raw)
    _opened(place)
