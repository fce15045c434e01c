"""Notes at the start of a run: on its data, its sampler, its loss, and changed packages."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from snm.batches.sources.source import Source
from snm.data.dataset import describe_weights
from snm.data.statistics import dominant_feature
from snm.errors import counted
from snm.trainer.phase import RunInputs
from snm.trainer.prepare import label_name_points

__all__ = ["start_notes", "version_notes"]


def version_notes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """A note on the packages whose version changed since the run started, if there are any."""
    changed = sorted(name for name, version in now.items() if before.get(name) != version)
    if not changed:
        return []
    earlier = ", ".join(f"{name} {before.get(name)}" for name in changed)
    return [f"this run began with {earlier}: its bits may differ from here on"]


def start_notes(inputs: RunInputs, source: Source) -> list[str]:
    """Notes on the data, the sampler and the warm start of a new run, a line each."""
    config, dataset, warm_start = inputs.config, inputs.dataset, inputs.warm_start
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
