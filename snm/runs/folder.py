"""Reads and writes the files of a run folder.

- `config.toml`: all settings, resolved
- `run.json`: the training data, and the shapes of the model
- `weighting.npz`: the fitted feature weighting
- `labels.txt`: the names of the labels, if the data has them
- `vectorizer.json`: the vectoriser, if the features were made from texts
- `log.jsonl`: one line per event
- `tensorboard/`: the same as TensorBoard event files
- `trackers.json`: the ids of the run in tracking services, if any are used
- `checkpoints/`: parameters
- `memory.json`: the trial of a memory, and whether it paid
- `memory.npz`: the training points that it keeps, if it did
- `result.json`: metrics on the test points, time, memory, versions
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from snm.checkpoints.store import Checkpoints
from snm.config.resolved import ResolvedConfig, read_resolved
from snm.config.settings import Config, write_config
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.sampling.samplers import SAMPLERS
from snm.system.files import write_whole
from snm.system.locks import LOCK

__all__ = ["RunFolder", "phase_names", "write_json"]

# Settings that may differ when a run continues, because they do not affect the steps done.
_MAY_CHANGE = ("auc", "epochs", "keep_checkpoints", "members_at_once", "mesh",
               "on_nonfinite")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The paths of the files of a run.

    Attributes:
      path: the run folder; it need not exist.
    """

    path: Path

    @property
    def config(self) -> Path:
        """All settings, resolved."""
        return self.path / "config.toml"

    @property
    def facts(self) -> Path:
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
          phase: a name from `phase_names`.
          about: JSON values saved with each checkpoint.
        """
        folder = self.path / "checkpoints"
        return Checkpoints(folder if phase == "train" else folder / phase, keep=keep, about=about)

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
        """The vectoriser of texts, if there is one."""
        return self.path / "vectorizer.json"

    @property
    def memory_trial(self) -> Path:
        """The trial of a memory, if one was made."""
        return self.path / "memory.json"

    @property
    def memory(self) -> Path:
        """The stored training points, if the memory paid."""
        return self.path / "memory.npz"

    def as_begun(self, config: ResolvedConfig) -> ResolvedConfig:
        """The settings, without what the run is older than."""
        if not self.config.exists():
            return config
        written = tomllib.loads(self.config.read_text(encoding="utf-8"))
        if SAMPLERS[
            config.sampler
        ].needs_batch_positives:  # B is counted, and was counted otherwise
            config = dataclasses.replace(config, sampled=written.get("sampled", config.sampled))
        if "memory" not in written:
            config = dataclasses.replace(config, memory="off")
        # With splits or centroids, `--epochs auto` asks for fewer passes.
        epochs = max(config.epochs, written.get("epochs", 0))
        if "item_splits" not in written and config.item_splits:
            config = dataclasses.replace(config, item_splits=0, epochs=epochs)
        if "class_init" not in written and config.class_init != "random":
            config = dataclasses.replace(config, class_init="random", epochs=epochs)
        return config

    def check(self, config: ResolvedConfig, facts: dict[str, Any]) -> None:
        """Checks that the folder is new, empty, or holds the same run; writes nothing.

        Args:
          config: resolved settings.
          facts: the content of `run.json`: the data, the shapes, the warm start.

        Raises:
          InputError: the folder holds another run, or something that is not a run.
        """
        if self.config.exists():
            self._check_same_run(config, facts)
        elif self.path.exists() and not self._is_incomplete():
            raise InputError(str(self.path), "something that is no run", "a new or empty folder")

    def _is_incomplete(self) -> bool:
        """Whether the folder is empty, or `write` was interrupted in it."""
        files = (self.config, self.facts, self.names, self.fitted_weighting, self.vectorizer)
        stems = {path.stem for path in files}
        return self.path.is_dir() and all(
            path.stem in stems or path.name == LOCK for path in self.path.iterdir()
        )

    def write(self, config: ResolvedConfig, facts: dict[str, Any], weighting: Weighting,
              names: tuple[str, ...] | None, vectorizer: Path | None = None) -> None:  # fmt: skip
        """Creates the folder and the files that do not change during training, `config.toml` last.

        Args:
          config: resolved settings.
          facts: the content of `run.json`.
          weighting: the fitted feature weighting.
          names: the names of the labels, or None.
          vectorizer: the file of the vectoriser to copy, or None.

        Raises:
          InputError: the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # Also when a run continues: the data may have moved.
            write_json(self.facts, facts)
            partial = self.path / "weighting.partial"
            weighting.save(partial)
            partial.replace(self.fitted_weighting)
            if names is not None:
                write_whole(self.names, "".join(f"{name}\n" for name in names))
            if vectorizer is not None:
                partial = self.path / "vectorizer.partial"
                partial.write_bytes(vectorizer.read_bytes())
                partial.replace(self.vectorizer)
            write_config(self.config, config)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"--run-dir {self.path}", reason, "a folder to write to") from error

    def _check_same_run(self, config: ResolvedConfig, facts: dict[str, Any]) -> None:
        old, old_facts = read_resolved(self.config), read_json(self.facts)
        if old_facts["sha256"] != facts["sha256"]:
            found = f"a run on other data ({old_facts['data']})"
            raise InputError(str(self.path), found, "the same data: choose another --run-dir")
        if old_facts["warm_start"] != facts["warm_start"]:
            found = f"a run with --warm-start {old_facts['warm_start']}"
            expected = f"{facts['warm_start']}: choose another --run-dir"
            raise InputError(str(self.path), found, expected)
        for field in dataclasses.fields(Config):
            before, now = getattr(old, field.name), getattr(config, field.name)
            if before != now and field.name not in _MAY_CHANGE:
                found = f"a run with {field.name} = {before!r}"
                raise InputError(str(self.path), found, f"{now!r}: choose another --run-dir")


def phase_names(member: int) -> tuple[str, str]:
    """The phase names of a member: its training, and its refit on all training points.

    Members are counted from 1.

    Example:
      >>> phase_names(1), phase_names(2)
      (('train', 'refit'), ('member-2', 'refit-2'))
    """
    return ("train", "refit") if member == 1 else (f"member-{member}", f"refit-{member}")


def read_json(path: Path) -> Any:
    """Reads a JSON file of a run.

    Raises:
      InputError: it is missing or damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(str(path), (error.strerror or "").lower(), "a file of the run") from error
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), "damaged JSON", "a file written by `snm train`") from error


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file atomically; arrays and NumPy scalars become lists and numbers."""
    text = json.dumps(value, indent=1, default=lambda x: np.asarray(x).tolist())
    write_whole(path, text + "\n")
