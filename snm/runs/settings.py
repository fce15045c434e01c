"""The settings that a run trains with: what is asked for, and what it began with."""

from __future__ import annotations

import dataclasses
import tomllib

from snm.config.resolve import resolve
from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.runs.folder import RunFolder
from snm.sampling.samplers import SAMPLERS

__all__ = ["for_older_run", "settings_of_run"]

_OLDER_SAMPLED = (8192, 16_384, 32_768)  # what `--sampled auto` was for one member and many labels
_CHOICES = ("label_text", "input_dropout", "feature_init", "memory", "logit_adjustment")
"""Settings whose `auto` looks at more than counts, or at `--epochs`, which may be raised."""


def settings_of_run(folder: RunFolder, config: Config, dataset: Dataset) -> ResolvedConfig:
    """The settings, resolved for the data set, and as the run began where it may go on.

    Args:
      folder: of the run; it need not exist.
      config: what is asked for.
      dataset: as loaded.

    Raises:
      InputError: settings that do not suit the data set or the run, or a damaged run.
    """
    asked = _with_recorded_choices(folder, config, dataset.sha256)
    return for_older_run(folder, resolve(asked, dataset))


def _with_recorded_choices(folder: RunFolder, config: Config, sha256: str) -> Config:
    """The settings, with what the run chose for those of `_CHOICES` that are left open.

    So a run of 3 passes, which has no dropout, keeps that where more passes are asked for; and a
    run of an older version the number of negatives that was the rule then. Of a run on other data
    nothing is kept: `RunFolder.check` refuses it.

    Args:
      folder: of the run.
      config: what is asked for.
      sha256: of the data.

    Raises:
      InputError: another of these settings than the run's is asked for.
    """
    left_open = [name for name in _CHOICES if getattr(config, name) == "auto"]
    if not (left_open or config.sampled == "auto") or not folder.config.exists():
        return config
    begun = folder.settings()
    if folder.read_facts()["sha256"] != sha256:
        return config
    # Where the batch decides, it is counted; see `for_older_run`.
    by_rule = config.sampled == "auto" and not SAMPLERS[begun.sampler].needs_batch_positives
    if by_rule and begun.sampled in _OLDER_SAMPLED:
        config = dataclasses.replace(config, sampled=begun.sampled)
    if not left_open:
        return config
    for name in _CHOICES:
        if name not in left_open:
            folder.refuse_other(name, getattr(begun, name), getattr(config, name))
    return dataclasses.replace(config, **{name: getattr(begun, name) for name in left_open})


def for_older_run(folder: RunFolder, config: ResolvedConfig) -> ResolvedConfig:
    """The settings, changed where the folder holds a run of an older version.

    Settings that its `config.toml` lacks are set to what that version did, so that the run goes on
    unchanged.

    Args:
      folder: of the run; it need not exist.
      config: resolved settings.

    Raises:
      InputError: a damaged run.
    """
    if not folder.config.exists():
        return config
    folder.settings()  # refuses what is damaged or cut off
    written = tomllib.loads(folder.config.read_text(encoding="utf-8"))
    if SAMPLERS[config.sampler].needs_batch_positives:
        # B is counted, and was counted otherwise.
        config = dataclasses.replace(config, sampled=written.get("sampled", config.sampled))
    if "logit_adjustment" not in written:
        config = dataclasses.replace(config, logit_adjustment="off")
    if "label_text" not in written:
        config = dataclasses.replace(config, label_text="off")
    if "memory" not in written:
        config = dataclasses.replace(config, memory="off", logit_adjustment="off")
    # With splits or centroids, `--epochs auto` asks for fewer passes.
    epochs = max(config.epochs, written.get("epochs", 0))
    if "item_splits" not in written and config.item_splits:
        config = dataclasses.replace(config, item_splits=0, epochs=epochs)
    if "class_init" not in written and config.class_init != "random":
        config = dataclasses.replace(config, class_init="random", epochs=epochs)
    return config
