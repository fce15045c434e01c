"""The manifest of a checkpoint: counters, a description of the run, and checksums of all files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from snm.errors import InputError
from snm.system.faults import read_error
from snm.system.files.checksums import are_records, read_sealed, write_sealed
from snm.text import first_line

__all__ = ["MANIFEST", "DamagedError", "Manifest", "UnfinishedError", "unreadable"]

MANIFEST = "manifest.json"
"""The file name of a manifest."""


class DamagedError(InputError):
    """The files of a checkpoint differ from what was written."""

    def __init__(self, path: Path, found: str, *, what: str = "a damaged checkpoint"):
        self.path = path
        super().__init__(str(path), f"{what} ({found})", "what was written")


class UnfinishedError(DamagedError):
    """A checkpoint has no manifest, which is written last: its writing was interrupted."""

    def __init__(self, path: Path):
        super().__init__(path, f"no {MANIFEST}", what="an unfinished checkpoint")


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The content of a manifest.

    Attributes:
      progress: the counters of the training loop.
      score: the score of the state, higher is better; None if it was not evaluated.
      about: describes the run.
      files: the size and CRC-32 of each file, by its path in the folder.
      padded: whether the tables end with padding rows that make their shards equal.
    """

    progress: dict[str, Any]
    score: float | None
    about: dict[str, Any]
    files: dict[str, list[int]]
    padded: bool = False

    @classmethod
    def read(cls, path: Path, step: int) -> Manifest:
        """Reads and verifies the manifest in the folder of a checkpoint.

        Raises:
          DamagedError: it is missing, malformed, differs from what was written, or belongs to
            another step.
          InputError: there is no permission to read it.
        """
        try:
            manifest = cls(**read_sealed(path / MANIFEST))
        except PermissionError as error:
            raise unreadable(path, error) from error
        except (OSError, ValueError, TypeError) as error:
            if isinstance(error, FileNotFoundError) and path.is_dir():
                raise UnfinishedError(path) from error
            raise DamagedError(path, f"{MANIFEST}: {first_line(error)}") from error
        objects = (manifest.progress, manifest.about)
        if not all(isinstance(value, dict) for value in objects) or not are_records(manifest.files):
            raise DamagedError(path, f"{MANIFEST}: no progress, description or files")
        if manifest.progress.get("step", step) != step:
            raise DamagedError(
                path, f"{MANIFEST} is of step {ascii(manifest.progress['step'])[:20]}"
            )
        return manifest

    def write(self, path: Path) -> None:
        """Writes it into the folder of a checkpoint, whose files must already be on the disk."""
        write_sealed(path / MANIFEST, dataclasses.asdict(self))


def unreadable(path: Path, error: PermissionError) -> InputError:
    """The error for missing permission to read a file of a checkpoint, which is no damage."""
    where = path if error.filename is None else error.filename
    return read_error(where, error, "a file of the checkpoint")
