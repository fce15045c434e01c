"""Reads and writes the files of a run folder.

- `manifest.json`: the checksums of the other files, and the checkpoints that the result is of
- `config.toml`: all settings, resolved
- `run.json`: the training data, the shapes of the model, and which settings were left to `auto`
- `weighting.npz`: the fitted feature weighting
- `labels.txt`: the names of the labels, if the data has them
- `vectorizer.json`: the vectorizer, if the features were made from texts
- `log.jsonl`: one line per event
- `tensorboard/`: the same as TensorBoard event files
- `wandb/`: the files of Weights & Biases, with `--log-to wandb`
- `profile/`: a trace of a few steps, with `--profile`
- `trackers.json`: the ids of the run in tracking services, if any are used, and what they received
- `checkpoints/`: parameters
- `memory.json`: what held-out points chose: memory, logit adjustment and calibration
- `memory.npz`: the training points of the memory, if one improves the scores
- `adjustment.npy`: the shift of each label's score, if a logit adjustment improves the scores
- `result.json`: metrics on the test points, time, memory, versions
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from snm.checkpoints.store import Checkpoints
from snm.config.resolved import ResolvedConfig, read_resolved
from snm.config.settings import Config, config_text
from snm.data.weighting import Weighting
from snm.distributed.agreement import is_marker
from snm.errors import InputError
from snm.memory.adjustment import load_shifts
from snm.runs.manifest import CONFIG, MAY_CHANGE, Manifest, manifest_path, read_manifest
from snm.runs.schema import MemoryRecord, RunOrigin, RunResult
from snm.runs.typed_json import Kind, as_json, parse_json
from snm.system.faults import describe_error, read_error
from snm.system.files.atomic import make_folder, partial_path, write_atomic
from snm.system.files.checksums import fingerprint
from snm.system.files.locks import LOCK

__all__ = ["WRITTEN_IN_PLACE", "RunFolder", "read_json", "write_json"]

WRITTEN_IN_PLACE = ("log.jsonl", "tensorboard", "wandb", "profile")
"""The files and folders of a run that grow; all others are written atomically."""


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The paths of the files of a run.

    Attributes:
      path: the run folder; it need not exist.
      apart: whether each process has a folder of its own; only process 0 writes to its folder.
    """

    path: Path
    apart: bool = False

    @property
    def config(self) -> Path:
        """All settings, resolved."""
        return self.path / CONFIG

    @property
    def origin(self) -> Path:
        """The training data and the shapes of the model."""
        return self.path / "run.json"

    @property
    def result(self) -> Path:
        """Metrics on the test points."""
        return self.path / "result.json"

    @property
    def log(self) -> Path:
        """The events, one JSON line each."""
        return self.path / "log.jsonl"

    def checkpoints(
        self, keep: int, phase: str = "train", about: dict[str, Any] | None = None
    ) -> Checkpoints:
        """The checkpoints of a phase.

        Args:
          keep: the number of newest checkpoints to keep.
          phase: its name, of `snm.runs.members`.
          about: JSON values saved with each checkpoint.
        """
        folder = self.path / "checkpoints"
        folder = folder if phase == "train" else folder / phase
        return Checkpoints(folder, keep=keep, about=about, apart=self.apart)

    @property
    def names(self) -> Path:
        """The names of the labels, if there are any."""
        return self.path / "labels.txt"

    @property
    def fitted_weighting(self) -> Path:
        """The fitted feature weighting."""
        return self.path / "weighting.npz"

    @property
    def vectorizer(self) -> Path:
        """The vectorizer of texts, if there is one."""
        return self.path / "vectorizer.json"

    @property
    def memory_record(self) -> Path:
        """The choices of the held-out points, if a memory was tried."""
        return self.path / "memory.json"

    @property
    def memory(self) -> Path:
        """The stored training points, if the run has a memory."""
        return self.path / "memory.npz"

    @property
    def adjustment(self) -> Path:
        """The shifts of the labels' scores, if the run has a logit adjustment."""
        return self.path / "adjustment.npy"

    def has(self, path: Path) -> bool:
        """Whether the run has an optional file, such as label names."""
        manifest = self._manifest_for(path)
        return path.exists() or (manifest is not None and path.name in manifest.files)

    def checked(self, path: Path) -> Path:
        """The path of a file of the run, after its content is verified against the manifest.

        Raises:
          InputError: the file is missing, or differs from what was written.
        """
        if (manifest := self._manifest_for(path)) is not None:
            manifest.check(path)
        return path

    def _manifest_for(self, path: Path) -> Manifest | None:
        """The manifest, if it lists this file: files of the end only once the run is finished."""
        manifest = read_manifest(self.path)
        if manifest is None or (path in self._final_files and manifest.finished is None):
            return None
        return manifest

    @property
    def _final_files(self) -> tuple[Path, ...]:
        return self.result, self.memory_record, self.memory, self.adjustment

    def finished(self) -> bool:
        """Whether the run has a result that fits its checkpoints.

        Raises:
          InputError: the manifest is missing or damaged, or it names a result that is missing.
        """
        manifest = read_manifest(self.path)
        if manifest is None:
            expected = "that of the run: the same `snm train` command makes it anew"
            raise InputError(str(manifest_path(self.path)), "no such file", expected)
        if manifest.finished is not None and not self.result.exists():
            expected = "the file of a finished run: the same `snm train` command writes it again"
            raise InputError(str(self.result), "no such file", expected)
        return manifest.finished is not None

    def settings(self) -> ResolvedConfig:
        """The settings.

        Raises:
          InputError: `config.toml` is missing, damaged or changed, or lacks a setting.
        """
        return read_resolved(self.checked(self.config))

    def read_origin(self) -> RunOrigin:
        """The content of `run.json`.

        Raises:
          InputError: it is missing or damaged, or its content is invalid.
        """
        return self._read_json(self.origin, RunOrigin)

    def read_result(self) -> dict[str, Any]:
        """The content of `result.json`; see `read_origin`."""
        return cast(dict[str, Any], self._read_json(self.result, RunResult))

    def read_memory_record(self) -> MemoryRecord:
        """The content of `memory.json`; see `read_origin`."""
        return self._read_json(self.memory_record, MemoryRecord)

    def read_adjustment(self, num_labels: int) -> NDArray[np.float32] | None:
        """The shift of each label's score by the logit adjustment, if the run has one.

        Raises:
          InputError: the file is missing or damaged, or it is of another number of labels.
        """
        if not self.has(self.adjustment):
            return None
        return load_shifts(self.checked(self.adjustment), num_labels=num_labels)

    def _read_json(self, path: Path, kind: type[Kind]) -> Kind:
        return parse_json(kind, read_json(self.checked(path)), str(path))

    def check(self, config: ResolvedConfig, origin: RunOrigin) -> None:
        """Checks that the folder is new, empty, or holds the same run; writes nothing.

        Args:
          config: resolved settings.
          origin: the content of `run.json`: the data, the shapes, the warm start.

        Raises:
          InputError: the folder holds another run, or something that is not a run.
        """
        if self.config.exists():
            self._check_same_run(config, origin)
        elif self.path.exists() and not self._is_incomplete():
            raise InputError(str(self.path), "something that is no run", "a new or empty folder")

    def _is_incomplete(self) -> bool:
        """Whether the folder is empty, or `write` was interrupted in it."""
        if not self.path.is_dir():
            return False
        found = {path.name for path in self.path.iterdir() if not is_marker(path)} - {LOCK}
        first = _names_while_written(manifest_path(self.path), self.origin)
        later = _names_while_written(
            self.fitted_weighting, self.names, self.vectorizer, self.config
        )
        return not found or (bool(found & first) and found <= first | later)

    def write(self, config: ResolvedConfig, origin: RunOrigin, weighting: Weighting,
              names: tuple[str, ...] | None, vectorizer: Path | None = None) -> None:  # fmt: skip
        """Creates the folder and the files that do not change during training, `config.toml` last.

        Existing files are rewritten if they differ, since the data may have moved.

        Args:
          config: resolved settings.
          origin: the content of `run.json`.
          weighting: the fitted feature weighting.
          names: the names of the labels, or None.
          vectorizer: the file of the vectorizer to copy, or None.

        Raises:
          InputError: the folder cannot be written.
        """
        contents = {self.origin.name: _json_text(as_json(origin)).encode(),
                    self.fitted_weighting.name: weighting.to_bytes()}  # fmt: skip
        if names is not None:
            contents[self.names.name] = "\n".join((*names, "")).encode()
        if vectorizer is not None:
            contents[self.vectorizer.name] = vectorizer.read_bytes()
        contents[CONFIG] = config_text(config).encode()
        try:
            make_folder(self.path)
            (read_manifest(self.path) or Manifest({}, [])).write_files(self.path, contents)
        except OSError as error:
            reason = describe_error(error)
            raise InputError(f"--run-dir {self.path}", reason, "a folder to write to") from error

    def mark_unfinished(self) -> None:
        """Removes the result from the manifest, before the checkpoints change."""
        manifest = read_manifest(self.path)
        assert manifest is not None, "RunFolder.write comes before"
        if manifest.finished is not None:
            final = {path.name for path in self._final_files}
            files = {name: prints for name, prints in manifest.files.items() if name not in final}
            dataclasses.replace(manifest, files=files, finished=None).write(self.path)

    def finish(self, result: dict[str, Any], checkpoints: dict[str, list[int]]) -> None:
        """Writes `result.json`, then the manifest that makes it the result of the run.

        Args:
          result: the content of `result.json`.
          checkpoints: phase -> [step, `Checkpoints.seal`] of the checkpoint that the result is of.
        """
        manifest = read_manifest(self.path)
        assert manifest is not None, "RunFolder.write comes before"
        write_json(self.result, result)
        files = manifest.files | {
            path.name: [fingerprint(path)] for path in self._final_files if path.exists()
        }
        dataclasses.replace(manifest, files=files, finished=checkpoints).write(self.path)

    def _check_same_run(self, config: ResolvedConfig, origin: RunOrigin) -> None:
        old, old_origin = self.settings(), self.read_origin()
        if old_origin.sha256 != origin.sha256:
            found = f"a run on other data ({old_origin.data})"
            if old_origin.data == origin.data:
                found = f"a run on other content of {origin.data}, which has changed since"
            raise InputError(str(self.path), found, "the same data: choose another --run-dir")
        if old_origin.warm_start != origin.warm_start:
            found = f"a run with --warm-start {old_origin.warm_start}"
            expected = f"{origin.warm_start}: choose another --run-dir"
            raise InputError(str(self.path), found, expected)
        for name in (field.name for field in dataclasses.fields(Config)):
            if name not in MAY_CHANGE:
                self.check_unchanged(name, getattr(old, name), getattr(config, name))

    def check_unchanged(self, name: str, before: Any, now: Any) -> None:
        """Checks that a setting has the value of the run.

        Raises:
          InputError: `before` and `now` differ.
        """
        if before != now:
            found = f"a run with {name} = {before!r}"
            same = f"the run's own settings (`--config {self.config}`)"
            expected = f"{now!r}: choose another --run-dir, or {same}"
            raise InputError(str(self.path), found, expected)


def _names_while_written(*paths: Path) -> set[str]:
    """The names of files, and of the temporary files of `write_atomic` for them."""
    return {name for path in paths for name in (path.name, partial_path(path).name)}


def read_json(path: Path) -> Any:
    """Reads a JSON file of a run.

    Raises:
      InputError: it is missing or damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise read_error(path, error, "a file of the run") from error
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), "damaged JSON", "a file written by `snm train`") from error


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file atomically; arrays and NumPy scalars become lists and numbers."""
    write_atomic(path, _json_text(value))


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=1, default=lambda x: np.asarray(x).tolist()) + "\n"
