"""Rejects settings that do not fit the data, before training starts."""

from __future__ import annotations

from scipy.sparse import csr_matrix

from snm.config.settings import Config
from snm.config.stages import Sizes
from snm.data.dataset import Dataset
from snm.data.mapped import is_mapped
from snm.data.matrices import check_finite
from snm.errors import InputError
from snm.losses.sampled import LOSSES
from snm.sampling.samplers import SAMPLERS

__all__ = ["check_bound", "check_data", "check_sampler", "check_stages"]


def check_data(dataset: Dataset) -> None:
    """Rejects data without anything to learn, values that are not finite, and double entries."""
    for part, points in (("", dataset.train), ("test ", dataset.test)):
        if points is not None:
            _check_labels(points.labels, f"{part}labels")
            _check_features(points.features, f"{part}features")
    if dataset.train.num_labels < 2:
        found = f"{dataset.train.num_labels} label"
        raise InputError("data", found, "at least 2: there are no negatives")
    if not len(dataset.train.labelled()):
        expected = "at least one"
        if dataset.train.weights is not None:
            expected = f"{expected} that does not weigh 0"
        raise InputError("data", "no training point with a label", expected)


def _check_labels(labels: csr_matrix, where: str) -> None:
    """Checks that each label of a point occurs once, with the value 1."""
    if not labels.has_canonical_format:  # its ids are in order
        raise InputError(where, "a label that a point has twice", "each label of a point once")
    low, high = (labels.data.min(), labels.data.max()) if labels.nnz else (1, 1)
    if low != 1 or high != 1:
        expected = "1 for each label of a point; `Points.weights` has weights"
        raise InputError(where, f"values from {low:g} to {high:g}", expected)


def _check_features(features: csr_matrix, where: str) -> None:
    """Checks that values are finite, and each feature of a point occurs once.

    Weighting is not linear in the values, so those of a feature are not summed.
    """
    if is_mapped(features.indices):  # our reader checked them, and a process reads only its part
        return
    if not features.has_canonical_format and not features.sorted_indices().has_canonical_format:
        expected = "each feature of a point once, as `features.sum_duplicates()` makes them"
        raise InputError(where, "a feature that a point has twice", expected)
    check_finite(features, where)


def check_sampler(config: Config) -> None:
    """Rejects rank weights with a sampler that draws with replacement.

    A label that is drawn again takes no second slot. The negatives would weigh less than asked for,
    by an amount that depends on the draw, and nothing would correct for rarely drawn labels.
    """
    if LOSSES[config.loss].has_rank_weights and SAMPLERS[config.sampler].with_replacement:
        found = f"{config.sampler} with --loss {config.loss}"
        expected = "uniform, or --loss softmax: weights of ranks need labels that are drawn once"
        raise InputError("--sampler", found, expected)


def check_stages(config: Config, num_labels: int, stages: list[Sizes]) -> None:
    """Rejects start sizes that B or k' cannot have."""
    where, start = "--sampled-start", config.sampled_start
    if start and SAMPLERS[config.sampler].needs_batch_positives:
        found = f"{start} with --sampler {config.sampler}"
        raise InputError(where, found, "0: the batch decides how many candidates there are")
    if isinstance(start, int) and start >= num_labels:
        found = f"{start} of {num_labels} labels"
        raise InputError(where, found, f"at most {num_labels - 1}, or `all` others")
    if config.mined_start and config.mined == "all":
        found = f"{config.mined_start}, with --mined all"
        raise InputError("--mined-start", found, "0: k' is B at every step")
    for stage in stages:
        if stage.mined > stage.sampled:
            where = "--mined-start" if config.mined_start else "--sampled-start"
            found = f"a stage with {stage.mined} mined of {stage.sampled} sampled labels"
            raise InputError(where, found, "at most as many mined as sampled, at every step")


def check_bound(config: Config, stages: list[Sizes]) -> None:
    """Rejects a loss that was asked to bound the retrieval loss but does not.

    The bound needs theta_j whose sum over the k hardest negatives is 1 or more (Reddi et al.,
    Theorem 3); `rank_weights.power_law` says why no more is needed.
    """
    if config.weight_scale != "surrogate":
        return
    where, k = "--weight-scale surrogate", config.retrieval_k
    if not SAMPLERS[config.sampler].uniform:
        found = f"--sampler {config.sampler}"
        raise InputError(where, found, "--sampler uniform: each label must be as likely as others")
    if (min_mined := min(stage.mined for stage in stages)) < k:
        found = f"{min_mined} mined negatives and --retrieval-k {k}"
        flag = "--sampled" if config.mined == "all" else "--mined"
        expected = f"{flag} {k} or more, at every step: fewer bound no retrieval loss at {k}"
        raise InputError(where, found, expected)
    if config.exclude == "all":
        found = "--exclude all"
        raise InputError(where, found, "--exclude positive: the loss must count every other label")
    if config.negative_weight < 1:
        found = f"--negative-weight {config.negative_weight}"
        raise InputError(where, found, "1 or more: less bounds no retrieval loss")
