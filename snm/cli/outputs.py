"""Which files no command writes over: those of runs, exports and data sets."""

from __future__ import annotations

from pathlib import Path

from snm.data.formats.layouts import DATA_FILES, holds_data
from snm.errors import InputError
from snm.runs.folder import RunFolder
from snm.system.checksums import read_sealed

__all__ = ["refuse_kept"]


def refuse_kept(flag: str, output: Path) -> None:
    """Refuses to write to a name that belongs to a run, an export or a data set, there or not.

    Args:
      flag: the option that names the file.
      output: the file, in a folder that exists; of a link, its target counts too.

    Raises:
      InputError: as said.
    """
    for path in (output.parent.resolve() / output.name, output.resolve()):
        if (whole := _whole_of(path)) is not None:
            raise InputError(f"{flag} {output}", f"a file of {whole}", "another file")


def _whole_of(path: Path) -> str | None:
    """What a file is a part of, if it is one."""
    for folder in path.parents:
        run = RunFolder(folder)
        if run.origin.is_file() and run.config.is_file():
            return "a run" if path.relative_to(folder).parts[0] in run.file_names else None
    for manifest in ("manifest.json", "config.json"):
        if path.name in _listed(path.parent / manifest):
            return "an export"
    if path.name.removesuffix(".gz") in DATA_FILES and holds_data(path.parent):
        return "a data set"
    return None


def _listed(manifest: Path) -> set[str]:
    """The files of an export, with the manifest; none where it is no manifest of ours."""
    try:
        return {manifest.name, *dict(read_sealed(manifest)["files"])}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
