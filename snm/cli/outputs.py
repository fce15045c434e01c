"""Protects the files of runs, exports and data sets from being overwritten."""

from __future__ import annotations

from pathlib import Path

from snm.data.formats.layouts import DATA_FILES, holds_data
from snm.errors import InputError
from snm.runs.folder import RunFolder
from snm.system.checksums import read_sealed

__all__ = ["refuse_kept"]


def refuse_kept(flag: str, output: Path) -> None:
    """Refuses an output whose name belongs to a run, an export or a data set.

    Args:
      flag: the option that names the file.
      output: the file, which need not exist, in a folder that exists. The target of a link is
        checked too.

    Raises:
      InputError: the file belongs to one of these.
    """
    for path in (output.parent.resolve() / output.name, output.resolve()):
        if (owner := _owner_of(path)) is not None:
            raise InputError(f"{flag} {output}", f"a file of {owner}", "another file")


def _owner_of(path: Path) -> str | None:
    """What a file belongs to: a run, an export or a data set; None if to none of them."""
    for folder in path.parents:
        run = RunFolder(folder)
        if run.origin.is_file() and run.config.is_file():
            return "a run" if path.relative_to(folder).parts[0] in run.file_names else None
    for manifest in ("manifest.json", "config.json"):
        if path.name in _manifest_files(path.parent / manifest):
            return "an export"
    if path.name.removesuffix(".gz") in DATA_FILES and holds_data(path.parent):
        return "a data set"
    return None


def _manifest_files(manifest: Path) -> set[str]:
    """The files of an export and its manifest; empty if `manifest` is not one of ours."""
    try:
        return {manifest.name, *dict(read_sealed(manifest)["files"])}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
