"""The error message of a run without probabilities."""

from __future__ import annotations

from snm.config.resolved import ResolvedConfig
from snm.memory.sizes import MIN_POINTS
from snm.runs.folder import RunFolder
from snm.runs.schema import RunOrigin

__all__ = ["why_uncalibrated"]


def why_uncalibrated(
    folder: RunFolder, config: ResolvedConfig, origin: RunOrigin
) -> tuple[str, str]:
    """Why a run has no probabilities, and what is expected, for an `InputError`.

    Args:
      folder: of a run without a calibration.
      config: its settings.
      origin: the content of its `run.json`.

    Raises:
      InputError: a damaged file of the run.
    """
    if not folder.finished():
        return "a run that has not ended", "its end: the same `snm train` command goes on"
    if folder.has(folder.memory_record):
        record = folder.read_memory_record()
        if record.inherited_from is None:
            found = f"{record.held_out} held-out points whose answers are all right or all wrong"
            return found, "a run with more training points"
    if (start := origin.warm_start) is not None:
        found = f"a run that took no probabilities over from {start}"
        return found, "one trained without --warm-start, with --memory on"
    if (parent := origin.grown_from) is not None:  # its data may differ from the parent's
        return f"a run grown from {parent}, which has none", "one trained with --memory on"
    points = folder.read_result()["data"].get("points", MIN_POINTS)
    if points < MIN_POINTS:
        found = f"a run of {points} training points, too few to hold some out for probabilities"
        return found, f"one of {MIN_POINTS} or more"
    if config.memory == "on":
        found = "a run without a point to hold out that has a label and a feature"
        return found, "other training points"
    expected = "one trained with --memory on"
    by_auto = "memory" in origin.given
    if config.preset == "paper" and not by_auto:
        return "a run of the preset paper, which fits no probabilities", expected
    by = "auto" if by_auto else "its settings"
    return (
        f"a run with memory = off, by {by}, which fits no probabilities",
        f"{expected}, in one process, from data that fit into memory",
    )
