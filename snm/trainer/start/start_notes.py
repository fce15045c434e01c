"""Notes at the start of a run: on its settings, data, sampler and loss, and changed packages."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from snm.batches.sources.source import Source
from snm.config.resolve import label_names_obstacle
from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config
from snm.data.dataset import Dataset
from snm.data.id_space import features_are_labels
from snm.data.statistics import dominant_feature
from snm.data.weights import describe_weights
from snm.losses.sampled import LOSSES, HeadLoss
from snm.text import counted
from snm.trainer.memory.notes import why_no_memory
from snm.trainer.start.training_points import label_name_points
from snm.trainer.start.warm_start import WarmStart

__all__ = ["notes_on_settings", "start_notes", "version_notes"]


def notes_on_settings(config: Config, dataset: Dataset) -> list[str]:
    """Notes on what the settings leave out, or leave to `auto`, a line each."""
    notes = [
        why_no_memory(config, dataset),
        _why_no_label_names(config, dataset),
        _why_no_scale(config),
    ]
    return [note for note in notes if note is not None]


def _why_no_label_names(config: Config, dataset: Dataset) -> str | None:
    """A note why `--label-text auto` does not train on the label names of the data; else None."""
    if config.label_text != "auto" or dataset.label_names is None or dataset.vectorizer is None:
        return None
    if features_are_labels(dataset):
        return None  # the names have the same words as the features
    refused = label_names_obstacle(dataset)
    return None if refused is None else f"label names: not trained on; found {refused[0]}"


def _why_no_scale(config: Config) -> str | None:
    """A note if `auto` takes the score scale 1 because a loss of one's own does not say more."""
    kind = type(LOSSES[config.loss])
    if config.score_scale != "auto" or kind.takes_exponentials is not HeadLoss.takes_exponentials:
        return None
    return (
        f"score scale 1: loss {config.loss} does not say takes_exponentials (True for a loss that "
        "exponentiates scores, whose scale auto then chooses; False ends this note)"
    )


def version_notes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """A note on the packages whose version changed since the run started, if there are any."""
    changed = sorted(name for name, version in now.items() if before.get(name) != version)
    if not changed:
        return []
    earlier = ", ".join(f"{name} {before.get(name)}" for name in changed)
    return [f"this run began with {earlier}: its bits may differ from here on"]


def start_notes(
    config: ResolvedConfig, dataset: Dataset, source: Source, warm_start: WarmStart | None
) -> list[str]:
    """Notes on the data, the sampler and the warm start of a new run, a line each."""
    notes = []
    if config.seen == "drop":
        note = "labels that are among a point's own features are never its answers"
        notes.append(f"{note} (--seen keep allows them)")
    if (weights := dataset.train.weights) is not None:
        notes.append(f"weights of points: {describe_weights(weights)}")
    if (weights := dataset.train.label_weights) is not None:
        notes.append(f"weights of labels: {weights.min():.3g} to {weights.max():.3g}")
    if (names := label_name_points(config, dataset)) is not None:
        note = f"{counted(names.num_points, 'label name')} are training points too"
        notes.append(f"{note} (--label-text off leaves them out)")
    if config.weighting == "l2" and (hidden := dominant_feature(dataset.train.features)):
        notes.append(hidden)
    if _ignores_log_weights(source, dataset.train.labels):
        note = f"{config.loss} ignores the log weights of the {config.sampler} sampler"
        notes.append(f"{note}: labels drawn more often count more (softmax corrects for it)")
    if warm_start is not None and warm_start.note:
        notes.append(warm_start.note)
    return notes


def _ignores_log_weights(source: Source, labels: csr_matrix) -> bool:
    """Whether the sampler returns log weights that the loss ignores; it draws a sample to see."""
    sampler = source.sampler
    if sampler is None or source.spec.head_loss.uses_log_weights:
        return False
    positives = None
    if sampler.needs_batch_positives:
        positives = labels.indices[: source.batch_size].astype(np.int32)
    return getattr(sampler.on_host(0, positives), "log_weights", None) is not None
