"""Checkpoints of a run: the only file that knows orbax.

A checkpoint is a folder with the arrays of the training state, as orbax writes them, and a
manifest: the loop's own numbers, what the run was (data, library versions), and size and CRC-32 of
every file. The manifest comes last, so a folder without one was never finished. With one it is
read by nobody before it is checked: a damaged file never gets as far as orbax. The checksums take
a tenth to a sixth of the time of the writing.

Several processes write one checkpoint together, each the parts that it holds, into a folder that
all of them see; process 0 adds the manifest. It is begun by all in their main threads, and ended on
the side: there they meet at JAX's coordinator alone, since what crosses devices must be in the same
order everywhere. Reading, each checks its share of the files and takes the parts that it will hold.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
from orbax.checkpoint import v1 as ocp

from snm.checkpoints.disk_errors import REASONS, disk_trouble, reason_number, require_room
from snm.distributed.processes import first, first_to_say, of_first, several
from snm.errors import InputError

__all__ = ["Checkpoints", "DamagedError", "Note", "SavingError"]

_UNFINISHED = ".orbax-checkpoint-tmp"
_DROPPED = ".dropped"
_MANIFEST = "manifest.json"
_LATE_SECONDS = 0.5
_MOST_LISTED = 64  # checkpoints that several processes tell each other of
_PIECE = 1 << 22  # bytes read at once: few enough for the cache


class DamagedError(InputError):
    """A checkpoint that is not what was written."""

    def __init__(self, path: Path, found: str):
        self.path = path
        super().__init__(str(path), f"a damaged checkpoint ({found})", "what was written")


class SavingError(OSError):
    """A checkpoint could not be written; those before it are whole."""


@dataclasses.dataclass(frozen=True)
class Note:
    """What a checkpoint says beside its arrays.

    Attributes:
      progress: the loop's numbers.
      score: higher is better; None where nothing was measured.
      about: what it belongs to.
      files: size and CRC-32 of each file, by its path in the folder.
      padded: whether tables have rows at their ends that only make parts equal.
    """

    progress: dict[str, Any]
    score: float | None
    about: dict[str, Any]
    files: dict[str, list[int]]
    padded: bool = False


class Checkpoints:
    """The checkpoints in a folder: the newest few, and the best by score.

    Args:
      folder: made when the first checkpoint is saved.
      keep: how many of the newest to keep.
      about: JSON values kept with each: what they belong to.
    """

    def __init__(self, folder: Path, *, keep: int = 2, about: dict[str, Any] | None = None):
        self._folder = folder.resolve()
        self._keep = keep
        self._about = about or {}

    def path(self, step: int) -> Path:
        """Where a checkpoint is."""
        return self._folder / str(step)

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Writes a checkpoint and drops those that are neither new nor best.

        Args:
          step: steps done.
          state: a pytree of arrays of jax or NumPy; of several processes, of jax over all.
          progress: JSON values of the loop.
          score: higher is better; None where nothing was measured.

        Raises:
          SavingError: a full disk, say; what was there before is still there.
        """
        self.begin(step, state, progress, score)()

    def begin(
        self, step: int, state: Any, progress: dict[str, Any], score: float | None
    ) -> Callable[[], None]:
        """Begins a checkpoint, as `save`; what this returns ends it, and may be called on the side.

        Of several processes all must call it, at the same point of their main threads, and all
        must end what was begun. On the side nothing is waited for but each other, at the
        coordinator; the arrays of jax that the state has may be donated in the meantime: what is
        to be written of them is on the host by then.

        Raises:
          SavingError: as `save`; the same for all where there is no room.
        """
        with self._told(step):
            self._make_room(step, state)
            context = ocp.Context()
            # Parameters do not compress; trying takes longer than the writing.
            context.array.saving.use_compression = False
            context.memory.deepcopy_host_arrays = False
            with _quiet(), context:
                writing = ocp.save_checkpointables_async(
                    str(self.path(step)), dict(state=state), overwrite=True
                )

        def end() -> None:
            with self._told(step):
                with _quiet():
                    writing.result()
                if first():
                    files = _fingerprints(self.path(step))
                    note = Note(progress, score, self._about, files, padded=several())
                    _write_manifest(self.path(step) / _MANIFEST, dataclasses.asdict(note))
            if first():
                for old in self._superseded(step, progress.get("best_step")):
                    self._drop(old)

        return end

    def _make_room(self, step: int, state: Any) -> None:
        """Process 0 looks whether the disk has room, and tells all."""
        trouble: OSError | None = None
        if first():
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                # What a killed run left; only a run that is alive writes here: it holds the lock.
                self._sweep()
                require_room(self._folder, sum(leaf.nbytes for leaf in jax.tree.leaves(state)))
            except OSError as error:
                trouble = error
        number = first_to_say(len(REASONS) if trouble is None else reason_number(trouble))
        if trouble is not None:
            raise trouble
        if number < len(REASONS):
            raise self.failure(step, REASONS[number])

    @contextlib.contextmanager
    def _told(self, step: int) -> Iterator[None]:
        """What the disk has to say becomes a SavingError, and what is half-written goes."""
        try:
            yield
        except SavingError:
            raise
        except Exception as error:
            if first():
                self._sweep()
            if (reason := disk_trouble(error)) is None:
                raise
            raise self.failure(step, reason) from error

    def failure(self, step: int, reason: str) -> SavingError:
        """The error of a checkpoint that could not be written, for one of `REASONS`."""
        return SavingError(
            f"{self.path(step)}: {reason}; the checkpoint was not written, and {self._left()}"
        )

    def _left(self) -> str:
        newest = self.latest()
        return "there is none before it" if newest is None else f"that of step {newest} is whole"

    def _sweep(self) -> None:
        """Removes what was never finished, or not dropped to the end."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                begun = path.name.isdigit() and not (path / _MANIFEST).exists()
                if begun or _UNFINISHED in path.name or path.name.endswith(_DROPPED):
                    shutil.rmtree(path, ignore_errors=True)

    def _superseded(self, written: int, best: int | None) -> list[int]:
        steps = self._listed()
        # Later than the one just written are only those that were passed over as damaged.
        kept = [*[step for step in steps if step <= written][-self._keep :], best]
        return [step for step in steps if step not in kept]

    def _drop(self, step: int) -> None:
        beside = self.path(step).with_name(f"{step}{_DROPPED}")
        try:
            self.path(step).rename(beside)  # at once, so that no reader sees half of it
        except OSError:
            return
        shutil.rmtree(beside, ignore_errors=True)

    def latest(self) -> int | None:
        """The step of the newest checkpoint, or None."""
        steps = self._listed()
        return max(steps) if steps else None

    def best(self) -> int | None:
        """The step with the best score, as the newest checkpoint says; that itself without one.

        Raises:
          DamagedError: the newest does not say.
        """
        newest = self.latest()
        return None if newest is None else self.read(newest).progress.get("best_step") or newest

    def steps(self) -> dict[int, float | None]:
        """The score of each checkpoint, by step; of a damaged one, None."""
        found: dict[int, float | None] = {}
        for step in self._listed():
            try:
                found[step] = self.read(step).score
            except DamagedError:
                # One that was dropped since it was listed is no checkpoint any more.
                if self.path(step).is_dir():
                    found[step] = None
        return found

    def _listed(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        names = [path.parent.name for path in self._folder.glob(f"*/{_MANIFEST}")]
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def read(self, step: int) -> Note:
        """What a checkpoint says beside its arrays.

        Raises:
          DamagedError: it is not what was written.
        """
        path = self.path(step)
        try:
            found = json.loads((path / _MANIFEST).read_bytes())
            crc = found.pop("crc")
            note = Note(**found)
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise DamagedError(path, f"{_MANIFEST}: {_first_line(error)}") from error
        if crc != _crc_of_json(found):
            raise DamagedError(path, f"the checksum of {_MANIFEST} differs")
        return note

    def progress(self, step: int) -> dict[str, Any]:
        """The loop's numbers in a checkpoint."""
        return self.read(step).progress

    def load(self, step: int, like: Any) -> Any:
        """The arrays of a checkpoint, in the structure, shapes and types of `like`.

        They lie where `like` says, on the first device where it says nothing. Spread over a mesh,
        a table may have more rows than was written, which are zeros.

        Raises:
          DamagedError: it is not what was written; which file differs is said.
        """
        said, path = self.read(step), self.path(step)
        try:
            found = _fingerprints(path, said.files if several() else None)
        except OSError as error:
            raise DamagedError(path, _first_line(error)) from error
        names = sorted(said.files.keys() | found.keys())
        wrong = [_difference(said.files.get(name), found.get(name)) for name in names]
        worst = first_to_say(next((i for i, what in enumerate(wrong) if what), len(names)))
        if worst < len(names):
            what = wrong[worst] or "differs, as another process found"
            raise DamagedError(path, f"{names[worst]} {what}")
        device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        spread = any(getattr(leaf, "sharding", None) is not None for leaf in jax.tree.leaves(like))
        abstract = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(
                x.shape, x.dtype, sharding=getattr(x, "sharding", None) or device
            ),
            like,
        )
        context = ocp.Context()
        context.array.loading.enable_padding_and_truncation = spread or said.padded
        with context:
            return ocp.load_checkpointables(str(path), dict(state=abstract))["state"]

    def newest_whole(self, like: Any) -> tuple[Any, Note | None, list[DamagedError]]:
        """The newest checkpoint that is what was written, and what is wrong with newer ones.

        Returns:
          Its arrays and what it says, both None where there is no checkpoint; the errors.

        Raises:
          InputError: there are checkpoints, and all are damaged.
        """
        damaged: list[DamagedError] = []
        steps = of_first(self._listed(), _MOST_LISTED)
        for step in reversed(steps):
            try:
                return self.load(step, like), self.read(step), damaged
            except DamagedError as error:
                damaged.append(error)
        if damaged:
            found = f"no whole checkpoint ({damaged[0].found}, and {len(damaged) - 1} more)"
            expected = "one to go on from: remove this folder to begin again"
            raise InputError(str(self._folder), found, expected) from damaged[0]
        return None, None, []


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what is raised here from being told many times over.

    Orbax logs a traceback a thread, and tensorstore's threads, which come back to find orbax's
    event loop closed, print another each.
    """
    logger, hook = logging.getLogger("absl"), sys.unraisablehook
    level = logger.level

    def unraisable(what: Any) -> None:
        if str(what.exc_value) != "Event loop is closed":
            hook(what)

    logger.setLevel(logging.CRITICAL)
    sys.unraisablehook = unraisable
    try:
        yield
    except BaseException:
        time.sleep(_LATE_SECONDS)  # for those threads
        raise
    finally:
        logger.setLevel(level)
        sys.unraisablehook = hook


def _fingerprints(folder: Path, said: dict[str, list[int]] | None = None) -> dict[str, list[int]]:
    """Size and CRC-32 of every file in a folder but its manifest, by its path there.

    Where several processes share the work, `said` is believed of the files of the others.
    """
    found = {}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for number, path in enumerate(path for path in files if path.name != _MANIFEST):
        name = path.relative_to(folder).as_posix()
        if said is not None and number % jax.process_count() != jax.process_index():
            found[name] = said.get(name, [])
        else:
            size = crc = 0
            with path.open("rb", buffering=0) as file:
                while piece := file.read(_PIECE):
                    size, crc = size + len(piece), zlib.crc32(piece, crc)
            found[name] = [size, crc]
    return found


def _difference(said: list[int] | None, found: list[int] | None) -> str | None:
    if said is None or found is None:
        return "is missing" if found is None else "should not be there"
    if said[0] != found[0]:
        return f"has {found[0]} bytes, not {said[0]}"
    return None if said == found else "has another checksum"


def _write_manifest(path: Path, note: dict[str, Any]) -> None:
    """Writes beside, to the disk, and renames: from then on the checkpoint counts."""
    beside = path.with_suffix(".partial")
    with beside.open("w", encoding="utf-8") as file:
        json.dump({**note, "crc": _crc_of_json(note)}, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _crc_of_json(value: Any) -> int:
    return zlib.crc32(json.dumps(value, sort_keys=True).encode())


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= 160 else f"{text[:160]} ..."
