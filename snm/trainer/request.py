"""What a run is asked for beside its settings, and its data once all processes are asked the same.

Imports little, so that `snm train` reads the data before it imports what trains.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.distributed.dataset import load_together
from snm.system.timing import part
from snm.trainer.start.same_command import check_same_command

if TYPE_CHECKING:
    from snm.prediction.predictor import Predictor
    from snm.trainer.steps.loop import Probe

__all__ = ["RunRequest", "load_for_run"]


@dataclasses.dataclass(frozen=True, eq=False)
class RunRequest:
    """The arguments of a run beside its settings; `snm.training` explains the attributes."""

    source: str | Path | None = None
    warm_start: str | Path | None = None
    same_ids: bool = False
    profile: bool = False
    probe: Probe[Predictor] | None = None
    stop: Callable[[], bool] | None = None

    def facts(self) -> dict[str, object]:
        """Name -> value of what must be equal in all processes of the run."""
        return {
            "warm_start": self.warm_start is not None,  # its path may differ
            "same_ids": self.same_ids,
            "probe": self.probe is not None,
            "probe_every": 0 if self.probe is None else self.probe.every,
        }


def load_for_run(
    data: str | Path | Dataset,
    config: Config,
    run_dir: str | Path,
    request: RunRequest,
    **facts: object,
) -> Dataset:
    """Checks that all processes were started with the same command, and loads the data.

    Args:
      data: a folder, its address in a store, `synthetic`, or a data set.
      config: the settings, not yet resolved.
      run_dir: folder of the run, or its address in a store.
      request: the arguments beside the settings.
      **facts: further options that must be equal in all processes.

    Raises:
      InputError: as `check_same_command` and `load_together`.
    """
    check_same_command(data, config, run_dir, {**facts, **request.facts()})
    with part("reading"):
        return data if isinstance(data, Dataset) else load_together(data)
