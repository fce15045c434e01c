"""Loads a trained model from the folder of a run, or of an export of it, or from the Hub."""

from __future__ import annotations

from pathlib import Path

from snm.errors import InputError
from snm.export.hub.folder import is_hub, open_hub
from snm.export.hub.transfer import HubAddress, pull
from snm.export.npy.folder import is_npy_export, open_npy
from snm.prediction.predictor import Predictor
from snm.runs import stored_run
from snm.stores.copies import local_copy

__all__ = ["load"]


def load(run: str | Path, *, memory: bool = True, verify: bool = True) -> Predictor:
    """Loads a trained model from its run folder, or from an export of it.

    From an unfinished run, it loads the first member's best checkpoint so far, without a memory.
    The arrays of `snm export --to npy` are mapped into memory, so opening them takes no time if
    `verify` is False.

    Args:
      run: the run folder; the folder of an export `--to npy`, whose files must not change while it
        is open, or `--to hub`; the address of one of these in a store (`gs://`, `s3://`), from
        which it is copied into the cache folder; or `hf://owner/name`, a model on the Hugging Face
        Hub, with `@revision` for a branch, tag or commit (extra `hub`).
      memory: whether to load the run's memory, if it has one, and its calibration; False loads the
        model alone.
      verify: whether to compare the parameters with their checksums; False loads faster, from a
        trusted disk. The other files are always compared.

    Raises:
      InputError: the folder is none of these, or damaged, or the run has no checkpoint.
    """
    address = HubAddress.of(str(run))
    folder = local_copy(run) if address is None else pull(address)
    if is_hub(folder):
        return open_hub(folder, memory=memory, verify=verify)
    if is_npy_export(folder):
        return open_npy(folder, memory=memory, verify=verify)
    if stored_run.has_export_files(folder):
        found, expected = "arrays that do not open alone", "a whole export as hub or npy, or a run"
        raise InputError(str(run), found, expected)
    return stored_run.load(folder, memory=memory, verify=verify)
