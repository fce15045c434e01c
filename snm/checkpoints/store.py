"""Writes, verifies and reads the checkpoints of a run, by orbax; only `orbax_lock` imports it too.

A checkpoint is a folder with the arrays of the training state, in orbax's format, and a manifest:
the counters of the training loop, a description of the run (data, library versions), and the size
and CRC-32 of every file. The manifest is written last, so a folder without one is incomplete. Files
are verified before orbax reads them. The checksums take 10 to 17 percent of the time of the write.

Several processes write one checkpoint together, each its own shards, into a shared folder; process
0 adds the manifest. All of them start the write in their main threads and finish it in a background
thread. The background threads synchronize only through JAX's coordinator, because collectives must
run in the same order on all devices. On reading, each process loads the shards that it will hold;
it verifies a part of the files, or all of them if each process has a folder of its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from snm.checkpoints.disk_errors import REASONS, check_free_space, reason_number
from snm.checkpoints.manifest import MANIFEST, DamagedError, Manifest, UnfinishedError, unreadable
from snm.checkpoints.orbax_lock import ORBAX_LOCK, quiet, quiet_tasks, without_consistency_check
from snm.distributed.processes import (
    broadcast_from_first,
    has_several_processes,
    is_first_process,
    is_mine,
    min_over_processes,
)
from snm.errors import InputError
from snm.system.faults import disk_reason, is_out_of_memory
from snm.system.files import disk
from snm.system.files.atomic import sync_names, sync_tree
from snm.system.files.checksums import checksum, difference, fingerprints
from snm.text import first_line

__all__ = ["Checkpoints", "SavingError"]

_UNFINISHED = ".orbax-checkpoint-tmp"
_DELETED = ".dropped"
_MAX_LISTED = 64  # checkpoints that process 0 lists to the others
_NO_DAMAGE = 2**31 - 1  # in place of the number of a damaged file


class SavingError(OSError):
    """A checkpoint could not be written; earlier ones are intact."""


class Checkpoints:
    """The checkpoints in a folder: the newest ones, and the one with the best score.

    Args:
      folder: created when the first checkpoint is saved.
      keep: the number of newest checkpoints to keep.
      about: JSON values that describe the run, saved with each checkpoint.
      apart: whether each process has its own folder, without a shared disk; then only process 0
        saves.
    """

    def __init__(self, folder: Path, *, keep: int = 2, about: dict[str, Any] | None = None,
                 apart: bool = False):  # fmt: skip
        self._folder = folder.resolve()
        self._keep = keep
        self._about = about or {}
        self.apart = apart

    def path(self, step: int) -> Path:
        """The folder of a checkpoint."""
        return self._folder / str(step)

    def save(self, step: int, state: Any, progress: dict[str, Any], score: float | None) -> None:
        """Writes a checkpoint and deletes those that are neither among the newest nor the best.

        Args:
          step: steps done.
          state: a pytree of JAX or NumPy arrays; with several processes, of global JAX arrays.
          progress: JSON values, the counters of the training loop.
          score: the score of the state, higher is better; None if it was not evaluated.

        Raises:
          SavingError: the write failed, for example because the disk is full; earlier checkpoints
            are intact.
        """
        with ORBAX_LOCK:
            self._arrays(step, state)()
        self._complete(step, progress, score)

    def begin(
        self, step: int, state: Any, progress: dict[str, Any], score: float | None
    ) -> Callable[[], None]:
        """Starts to write a checkpoint; call the returned function, in any thread, to finish it.

        All processes must call this at the same point of their main threads, and all must call the
        returned function. JAX arrays of `state` may be donated in the meantime, because they are
        copied to the host before this returns.

        Raises:
          SavingError: as `save`; if the disk is full, in all processes.
        """
        written = self._arrays(step, state)

        def end() -> None:
            written()
            self._complete(step, progress, score)

        return end

    def _arrays(self, step: int, state: Any) -> Callable[[], None]:
        """Starts to write the arrays; the returned function waits until they are written."""
        from orbax.checkpoint import v1 as ocp

        with self._saving_errors(step):
            self._check_space(step, state)
            context = ocp.Context()
            # Parameters are incompressible; trying takes longer than writing them.
            context.array.saving.use_compression = False
            context.memory.deepcopy_host_arrays = False
            if self.apart:
                context.multiprocessing.active_processes = {0}
            with quiet(), without_consistency_check(self.apart), context:
                writing = ocp.save_checkpointables_async(
                    str(self.path(step)), dict(state=state), overwrite=True
                )

        def written() -> None:
            with self._saving_errors(step), quiet():
                writing.result()

        return written

    def _complete(self, step: int, progress: dict[str, Any], score: float | None) -> None:
        """Writes the manifest of written arrays, and deletes the checkpoints they supersede."""
        if not is_first_process():
            return
        with self._saving_errors(step):
            path = self.path(step)
            # The files must be on the disk before the manifest that lists them.
            sync_tree(path)
            # A member's folder has two parents, which other members may have created.
            sync_names(self._folder, *self._folder.parents[:2])
            files = fingerprints(path, MANIFEST)
            Manifest(progress, score, self._about, files, padded=has_several_processes()).write(
                path
            )
        for old in self._superseded(step, progress.get("best_step")):
            self._delete(old)

    def _check_space(self, step: int, state: Any) -> None:
        """Checks on process 0 that the disk has space; raises in all processes if not."""
        failure: OSError | None = None
        if is_first_process():
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                # Removes the leftovers of a killed run. This run has the lock, so no other writes.
                self._sweep()
                check_free_space(self._folder, sum(leaf.nbytes for leaf in jax.tree.leaves(state)))
            except OSError as error:
                failure = error
        number = len(REASONS) if failure is None else reason_number(failure)
        if not self.apart:
            number = min_over_processes(number)
        if failure is not None:
            raise failure
        if number < len(REASONS):
            raise self.failure(step, REASONS[number])

    @contextlib.contextmanager
    def _saving_errors(self, step: int) -> Iterator[None]:
        """Turns errors of the disk into SavingError, and removes incomplete checkpoints."""
        try:
            yield
        except SavingError:
            raise
        except Exception as error:
            quiet_tasks()
            if is_first_process():
                self._sweep()
            if (reason := disk_reason(error)) is None:
                raise
            raise self.failure(step, reason) from error

    def failure(self, step: int, reason: str) -> SavingError:
        """The error of a checkpoint that could not be written, for one of `REASONS`."""
        remaining = self._remaining_text()
        return SavingError(
            f"{self.path(step)}: {reason}; the checkpoint was not written, and {remaining}"
        )

    def _remaining_text(self) -> str:
        newest = self.latest()
        return "there is none before it" if newest is None else f"that of step {newest} is whole"

    def _sweep(self) -> None:
        """Removes checkpoints that were not written completely or not deleted completely."""
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                incomplete = path.name.isdigit() and not (path / MANIFEST).exists()
                if incomplete or _UNFINISHED in path.name or path.name.endswith(_DELETED):
                    disk.remove_tree(path)

    def _superseded(self, written: int, best: int | None) -> list[int]:
        """The steps whose checkpoints to delete, after that of step `written` was saved."""
        steps = self._steps()
        # Checkpoints later than the one just written are damaged: the run resumed before them.
        kept = [*[step for step in steps if step <= written][-self._keep :], best]
        return [step for step in steps if step not in kept]

    def _delete(self, step: int) -> None:
        dropped = self.path(step).with_name(f"{step}{_DELETED}")
        try:
            disk.rename(self.path(step), dropped)  # so that no reader sees a part of it
        except OSError:
            return
        disk.remove_tree(dropped)

    def latest(self) -> int | None:
        """The step of the newest checkpoint, or None."""
        steps = self._steps()
        return max(steps) if steps else None

    def best(self) -> int | None:
        """The step with the best score, from the newest checkpoint; without scores, the newest.

        Raises:
          DamagedError: the manifest of the newest checkpoint is damaged.
          InputError: it may not be read.
        """
        newest = self.latest()
        return None if newest is None else self.read(newest).progress.get("best_step") or newest

    def _steps(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        names = [path.parent.name for path in self._folder.glob(f"*/{MANIFEST}")]
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def read(self, step: int) -> Manifest:
        """Reads and verifies the manifest of a checkpoint.

        Raises:
          DamagedError: the manifest is damaged.
          InputError: it may not be read.
        """
        return Manifest.read(self.path(step), step)

    def seal(self, step: int) -> int:
        """The checksum of a checkpoint's manifest, which has those of all of its files.

        Raises:
          DamagedError: there is no such checkpoint, or its manifest is damaged.
        """
        return checksum(dataclasses.asdict(self.read(step)))

    def load(self, step: int, like: Any, *, verify: bool = True) -> Any:
        """Loads the arrays of a checkpoint, in the structure, shapes and types of `like`.

        Arrays get the shardings of `like`; without one, they go to the first device. If they are
        sharded, tables may have more rows than were written; these are zeros. Without `verify`,
        only the manifest's own checksum is compared, and not those of the files.

        Raises:
          DamagedError: a file differs from what was written; the message names it.
          MemoryError: there is not enough memory, or no thread can be started, to load it.
        """
        from orbax.checkpoint import v1 as ocp

        manifest, path = self.verify(step) if verify else self.read(step), self.path(step)
        device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
        sharded = any(getattr(leaf, "sharding", None) is not None for leaf in jax.tree.leaves(like))
        abstract = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(
                x.shape, x.dtype, sharding=getattr(x, "sharding", None) or device
            ),
            like,
        )
        context = ocp.Context()
        context.array.loading.enable_padding_and_truncation = sharded or manifest.padded
        if self.apart:
            context.multiprocessing.active_processes = {jax.process_index()}
            context.multiprocessing.primary_host = jax.process_index()
        try:
            with ORBAX_LOCK, context:
                return ocp.load_checkpointables(str(path), dict(state=abstract))["state"]
        except (ValueError, KeyError, TypeError) as error:  # not damaged, by its checksums
            if is_out_of_memory(error):
                raise MemoryError(f"{path}: no room to load the checkpoint") from error
            raise DamagedError(path, f"arrays of another model: {first_line(error)}") from error

    def verify(self, step: int) -> Manifest:
        """Compares every file of a checkpoint with its manifest; returns the manifest.

        Raises:
          DamagedError: a file differs from what was written; the message names it. Raised in all
            processes if one process finds it, so that all continue from the same checkpoint.
          InputError: there is no permission to read a file.
        """
        path = self.path(step)
        failure: InputError | None = None
        manifest, differences = None, {}
        try:
            manifest = self.read(step)
            verified_here = (lambda _: True) if self.apart else is_mine
            found = fingerprints(path, MANIFEST, manifest.files, verified_here)
            for name in sorted(manifest.files.keys() | found.keys()):
                differences[name] = difference(manifest.files.get(name), found.get(name))
        except InputError as error:
            failure = error
        except PermissionError as error:
            failure = unreadable(path, error)
            failure.__cause__ = error
        except OSError as error:
            failure = DamagedError(path, first_line(error))
            failure.__cause__ = error
        # The number, from 1, of the first damaged file that any process found; 0 if one could not
        # read the files. A process that failed takes part too, because the others wait for it.
        first = next((i for i, damage in enumerate(differences.values(), 1) if damage), _NO_DAMAGE)
        lowest = min_over_processes(first if failure is None else 0)
        if failure is not None:
            raise failure
        if lowest < _NO_DAMAGE:
            names = ["a file", *differences]
            name = names[lowest] if lowest < len(names) else names[0]
            damage = differences.get(name) or "differs, as another process found"
            raise DamagedError(path, f"{name} {damage}")
        assert manifest is not None
        return manifest

    def load_newest_intact(self, like: Any) -> tuple[Any, Manifest | None, list[DamagedError]]:
        """Loads the newest intact checkpoint whose best checkpoint is intact too.

        Returns:
          Its arrays and its manifest, both None if there is no checkpoint; and the errors of newer
          checkpoints, which are damaged or refer to a damaged best checkpoint.

        Raises:
          InputError: there are checkpoints, but none of them is intact.
        """
        steps = broadcast_from_first(self._steps(), _MAX_LISTED)
        damaged = [] if has_several_processes() else self._interrupted(max(steps, default=-1))
        for step in reversed(steps):
            try:
                manifest = self.verify(step)
                best = manifest.progress.get("best_step")
                if best != step and best in steps:  # a better one later may have superseded it
                    self.verify(best)
                return self.load(step, like, verify=False), manifest, damaged
            except DamagedError as error:
                damaged.append(error)
        if steps:
            found = f"no whole checkpoint ({damaged[0].found}, and {len(damaged) - 1} more)"
            expected = "one to go on from: remove this folder to begin again"
            raise InputError(str(self._folder), found, expected) from damaged[0]
        return None, None, damaged

    def _interrupted(self, newest: int) -> list[DamagedError]:
        """The errors of checkpoints after the newest whose writing was interrupted."""
        if not self._folder.is_dir():
            return []
        names = (path.name for path in self._folder.iterdir())
        paths = [self._folder / name for name in names if name.isascii() and name.isdigit()]
        return [UnfinishedError(path) for path in paths if int(path.name) > newest]
