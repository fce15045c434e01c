"""A run folder: what was asked for, what happened, what came out of it.

- `config.toml`: every setting, resolved
- `run.json`: the data it is trained on, and what the model's arrays look like
- `weighting.npz`: the fitted feature weighting
- `labels.txt`: names of the labels, where the data has them
- `vectorizer.json`: what turns texts into features, where the data were made from texts
- `log.jsonl`: one line an event
- `tensorboard/`: the same as event files
- `trackers.json`: ids of the run in services that it is logged to, where there are any
- `checkpoints/`: parameters
- `result.json`: metrics on the test points, time, memory, versions
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from snm.checkpoints.store import Checkpoints
from snm.config.resolved import ResolvedConfig, read_resolved
from snm.config.settings import Config, write_config
from snm.data.weighting import Weighting
from snm.errors import InputError
from snm.system.files import write_whole
from snm.system.locks import LOCK

__all__ = ["RunFolder", "phase_names", "write_json"]

# Settings that may differ when a run goes on: they do not change the steps already done.
_MAY_CHANGE = ("auc", "epochs", "keep_checkpoints", "mesh", "on_nonfinite")


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The files of a run."""

    path: Path

    @property
    def config(self) -> Path:
        """Every resolved setting."""
        return self.path / "config.toml"

    @property
    def facts(self) -> Path:
        """The data and the shapes of the model."""
        return self.path / "run.json"

    @property
    def result(self) -> Path:
        """Metrics on the test points."""
        return self.path / "result.json"

    @property
    def log(self) -> Path:
        """One JSON line an event."""
        return self.path / "log.jsonl"

    def checkpoints(
        self, keep: int, phase: str = "train", about: dict[str, Any] | None = None
    ) -> Checkpoints:
        """The checkpoints of a phase, by its name: see `phase_names`; `about` is kept with each."""
        folder = self.path / "checkpoints"
        place = folder if phase == "train" else folder / phase
        return Checkpoints(place, keep=keep, about=about)

    @property
    def names(self) -> Path:
        """Names of the labels, where there are any."""
        return self.path / "labels.txt"

    @property
    def fitted_weighting(self) -> Path:
        """The feature weighting, fitted."""
        return self.path / "weighting.npz"

    @property
    def vectorizer(self) -> Path:
        """What turns texts into features, where there is such a thing."""
        return self.path / "vectorizer.json"

    def check(self, config: ResolvedConfig, facts: dict[str, Any]) -> None:
        """Finds nothing in the folder, or the same run; writes nothing.

        Args:
          config: the settings.
          facts: as in `run.json`: the data, the widths, where the run starts from.

        Raises:
          InputError: the folder holds another run, or something that is no run.
        """
        if self.config.exists():
            self._refuse_another(config, facts)
        elif self.path.exists() and not self._only_begun():
            raise InputError(str(self.path), "something that is no run", "a new or empty folder")

    def _only_begun(self) -> bool:
        """Whether the folder is empty, or `write` was interrupted in it."""
        files = (self.config, self.facts, self.names, self.fitted_weighting, self.vectorizer)
        ours = {path.stem for path in files}
        return self.path.is_dir() and all(
            path.stem in ours or path.name == LOCK for path in self.path.iterdir()
        )

    def write(self, config: ResolvedConfig, facts: dict[str, Any], weighting: Weighting,
              names: tuple[str, ...] | None, vectorizer: Path | None = None) -> None:  # fmt: skip
        """Makes the folder, with all that does not change while training; `config.toml` last.

        Raises:
          InputError: a place that cannot be written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            # Written again when a run goes on: the data may have moved.
            write_json(self.facts, facts)
            beside = self.path / "weighting.partial"
            weighting.save(beside)
            beside.replace(self.fitted_weighting)
            if names is not None:
                write_whole(self.names, "".join(f"{name}\n" for name in names))
            if vectorizer is not None:
                beside = self.path / "vectorizer.partial"
                beside.write_bytes(vectorizer.read_bytes())
                beside.replace(self.vectorizer)
            write_config(self.config, config)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"--run-dir {self.path}", reason, "a folder to write to") from error

    def _refuse_another(self, config: ResolvedConfig, facts: dict[str, Any]) -> None:
        old, known = read_resolved(self.config), read_json(self.facts)
        if known["sha256"] != facts["sha256"]:
            found = f"a run on other data ({known['data']})"
            raise InputError(str(self.path), found, "the same data: choose another --run-dir")
        if known["warm_start"] != facts["warm_start"]:
            found = f"a run with --warm-start {known['warm_start']}"
            expected = f"{facts['warm_start']}: choose another --run-dir"
            raise InputError(str(self.path), found, expected)
        for field in dataclasses.fields(Config):
            before, now = getattr(old, field.name), getattr(config, field.name)
            if before != now and field.name not in _MAY_CHANGE:
                found = f"a run with {field.name} = {before!r}"
                raise InputError(str(self.path), found, f"{now!r}: choose another --run-dir")


def phase_names(member: int) -> tuple[str, str]:
    """The names of a member's training and of its refit on all of train; members count from 1.

    Example:
      >>> phase_names(1), phase_names(2)
      (('train', 'refit'), ('member-2', 'refit-2'))
    """
    return ("train", "refit") if member == 1 else (f"member-{member}", f"refit-{member}")


def read_json(path: Path) -> Any:
    """A JSON file of a run.

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
    """Writes beside and renames; arrays and NumPy scalars become lists and numbers."""
    text = json.dumps(value, indent=1, default=lambda x: np.asarray(x).tolist())
    write_whole(path, text + "\n")
