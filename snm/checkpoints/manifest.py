"""The manifest of a checkpoint: counters, a description of the run, and checksums of all files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from snm.errors import InputError, first_line
from snm.system.checksums import are_records, read_sealed, write_sealed
from snm.system.faults import unread

__all__ = ["MANIFEST", "DamagedError", "Note", "UnfinishedError", "denied"]

MANIFEST = "manifest.json"
"""The name of its file."""


class DamagedError(InputError):
    """The files of a checkpoint differ from what was written."""

    def __init__(self, path: Path, found: str, *, what: str = "a damaged checkpoint"):
        self.path = path
        super().__init__(str(path), f"{what} ({found})", "what was written")


class UnfinishedError(DamagedError):
    """A checkpoint lacks its manifest, which is written last: something ended its writing."""

    def __init__(self, path: Path):
        super().__init__(path, f"no {MANIFEST}", what="an unfinished checkpoint")


@dataclasses.dataclass(frozen=True)
class Note:
    """The content of a manifest.

    Attributes:
      progress: the counters of the training loop.
      score: of the state, higher is better; None if it was not evaluated.
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
    def read(cls, path: Path, step: int) -> Note:
        """Reads and verifies the manifest in the folder of a checkpoint.

        Raises:
          DamagedError: it is missing, unreadable, differs from what was written, or is of another
            step.
          InputError: it may not be read.
        """
        try:
            note = cls(**read_sealed(path / MANIFEST))
        except PermissionError as error:
            raise denied(path, error) from error
        except (OSError, ValueError, TypeError) as error:
            if isinstance(error, FileNotFoundError) and path.is_dir():
                raise UnfinishedError(path) from error
            raise DamagedError(path, f"{MANIFEST}: {first_line(error)}") from error
        objects = (note.progress, note.about)
        if not all(isinstance(one, dict) for one in objects) or not are_records(note.files):
            raise DamagedError(path, f"{MANIFEST}: no progress, description or files")
        if note.progress.get("step", step) != step:
            raise DamagedError(path, f"{MANIFEST} is of step {ascii(note.progress['step'])[:20]}")
        return note

    def write(self, path: Path) -> None:
        """Writes it into the folder of a checkpoint, whose files must be on the disk before."""
        write_sealed(path / MANIFEST, dataclasses.asdict(self))


def denied(path: Path, error: PermissionError) -> InputError:
    """What to raise where a file of a checkpoint may not be read, which says nothing of damage."""
    where = path if error.filename is None else error.filename
    return unread(where, error, "a file of the checkpoint")
