"""Resolves settings against a data set: replaces each `auto` by a value."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Literal

import numpy as np

from snm.config import auto as rules
from snm.config import auto_epochs
from snm.config.data_checks import check_bound, check_data, check_sampler, check_stages
from snm.config.evidence import evidence_lost, neighbors_lost
from snm.config.loss_options import loss_options
from snm.config.resolved import ResolvedConfig, unresolved_values
from snm.config.settings import Config, preset
from snm.config.stages import SizeSchedule
from snm.data.dataset import Dataset
from snm.data.id_space import features_are_labels
from snm.data.mapped import is_mapped
from snm.data.repository.registry import PROPENSITY, propensity_of
from snm.data.weighting import Kind, Weighting
from snm.distributed.dataset import count_seen_labels, has_negative
from snm.distributed.processes import has_several_processes
from snm.errors import InputError
from snm.losses.sampled import LOSSES, HeadLoss, SampleSizes
from snm.memory.label_names import try_names
from snm.sampling.samplers import SAMPLERS
from snm.system.timing import part
from snm.text import pip_install

__all__ = ["label_names_obstacle", "resolve"]


def resolve(config: Config, dataset: Dataset) -> ResolvedConfig:
    """Replaces settings that depend on the data by their values.

    Settings that are already resolved keep their values, and are checked against the data.

    Raises:
      InputError: a setting that does not fit the data: an integer B >= K, k' > B.
    """
    config = config.check()
    check_sampler(config)
    check_data(dataset)
    num_labels = dataset.train.num_labels
    members = _members(config, dataset)
    seen = _seen(config, dataset)
    splits = _item_splits(config, dataset, seen)
    sampled = _sampled(config, dataset, members, splits)
    mined = _mined(config, num_labels, num_labels - 1 if sampled == "all" else sampled)
    loss = _loss(dataclasses.replace(config, sampled=sampled, mined=mined), num_labels)
    scale, learned = _score_scale(config, dataset, exponentials=loss.takes_exponentials)
    rate = loss.auto_learning_rate if config.learning_rate == "auto" else config.learning_rate
    class_init = config.class_init
    if class_init == "auto":
        class_init = rules.auto_class_init(splits)
    weighting = _weighting(config, dataset, seen)
    epochs = _epochs(config, dataset, class_init, splits)
    dropout = _input_dropout(config, dataset, weighting, epochs)
    memory = _memory(config, dataset, members, epochs, dense=weighting == "standard")
    a, b = propensity_of(dataset.name) or PROPENSITY
    return ResolvedConfig(
        **unresolved_values(config),
        weighting=weighting,
        seen=seen,
        item_splits=splits,
        memory=memory,
        logit_adjustment=_logit_adjustment(config, memory),
        sampled=sampled,
        mined=mined,
        input_dropout=dropout,
        label_text=_label_text(config, dataset, weighting),
        feature_init=_feature_init(config, dataset, weighting, dropout),
        class_init=class_init,
        score_scale=scale,
        learn_score_scale=learned,
        learning_rate=rate,
        epochs=epochs,
        members=members,
        members_at_once=_members_at_once(config, dataset, members),
        propensity_a=a if config.propensity_a == "auto" else config.propensity_a,
        propensity_b=b if config.propensity_b == "auto" else config.propensity_b,
    )


def _members(config: Config, dataset: Dataset) -> int:
    if config.members == "few":
        return rules.few_members(dataset.train.num_points)
    if config.members != "auto":
        return config.members
    return rules.auto_members(dataset.train.num_points, _rows(dataset), config.dim)


def _loss(config: Config, num_labels: int) -> HeadLoss:
    """The loss of the last step, after a check of all sizes; `list_grade` is not set yet."""
    sizes = SizeSchedule.of(config, num_labels)
    stages = [sizes(share) for share in sizes.shares]
    check_stages(config, num_labels, stages)
    check_bound(config, stages)
    return LOSSES[config.loss].configured(
        loss_options(config), SampleSizes(num_labels, *stages[-1])
    )


def _score_scale(config: Config, dataset: Dataset, *, exponentials: bool) -> tuple[float, bool]:
    """The multiplier of scores, and whether it is learned."""
    scale, learned = config.score_scale, config.learn_score_scale
    if learned == "auto":
        has_frequent_labels = rules.auto_learn_scale(
            dataset.train.points_per_label, dataset.train.labels_per_labelled_point
        )
        learned = scale == "auto" and exponentials and has_frequent_labels
    if scale == "auto":
        scale = rules.auto_score_scale(dataset.train.num_labels) if exponentials else 1.0
    return scale, learned


def _epochs(config: Config, dataset: Dataset, class_init: str, splits: int) -> int:
    points, features = dataset.train.num_points, dataset.train.features_per_point
    if config.epochs == "few":
        return auto_epochs.few_epochs(points, features, item_splits=splits)
    if config.epochs == "auto":
        label_points = dataset.train.points_per_label
        more = auto_epochs.auto_more_visits(
            class_init, label_points, dataset.train.points_per_feature, item_splits=splits
        )
        most = auto_epochs.auto_max_epochs(class_init, label_points, points)
        return auto_epochs.auto_epochs(points, features, item_splits=splits, more=more, most=most)
    return config.epochs


def _input_dropout(config: Config, dataset: Dataset, weighting: Kind, epochs: int) -> float:
    if config.input_dropout != "auto":
        return config.input_dropout
    if weighting == "standard":
        return 0.0  # dense features cannot replace each other
    if not rules.auto_may_use_dropout(epochs, dataset.train.features_per_point):
        return 0.0
    count, evidence = dataset.train.points_per_label, evidence_lost(dataset.train)
    if rules.auto_input_dropout(count, evidence, 0.0) == 0:  # whatever neighbours lose
        return 0.0
    return rules.auto_input_dropout(count, evidence, neighbors_lost(dataset.train))


def _feature_init(config: Config, dataset: Dataset, weighting: Kind, dropout: float) -> float:
    if config.feature_init != "auto":
        return config.feature_init
    # Only with these weightings do points of many features have small values.
    if weighting not in ("tfidf", "l2"):
        return 1.0
    return rules.auto_feature_init(dataset.train.features_per_point * (1 - dropout))


def _weighting(config: Config, dataset: Dataset, seen: str) -> Kind:
    if config.weighting == "standard" and seen == "drop":
        expected = "--seen keep, or another weighting: all features of a point would be seen labels"
        raise InputError("--weighting standard", "--seen drop", expected)
    parts = [part.features for part in (dataset.train, dataset.test) if part is not None]
    if config.weighting == "tfidf":
        for name, features in zip(("training", "test"), parts, strict=False):
            if has_negative(features):
                found = f"a negative value of a {name} point"
                raise InputError("--weighting tfidf", found, "counts of at least 0, or l2")
    if config.weighting != "auto":
        return config.weighting
    negative = any(map(has_negative, parts))
    return rules.auto_weighting(parts[0], negative=negative, may_center=seen == "keep")


def _members_at_once(config: Config, dataset: Dataset, members: int) -> int:
    """Members that train in parallel; always 1 with several processes."""
    if config.members_at_once != "auto":
        return min(config.members_at_once, members)
    return (
        1
        if has_several_processes()
        else rules.auto_members_at_once(members, _rows(dataset), config.dim)
    )


def _rows(dataset: Dataset) -> int:
    """The number of feature rows and class rows of a model."""
    return dataset.train.num_features + dataset.train.num_labels


def _sampled(config: Config, dataset: Dataset, members: int, splits: int) -> int | Literal["all"]:
    """B; for in-batch negatives, the most negatives that a term can have."""
    num_labels = dataset.train.num_labels
    if SAMPLERS[config.sampler].needs_batch_positives:
        return _max_in_batch_negatives(config, dataset)
    sampled = config.sampled
    if sampled == "auto":
        sampled = rules.auto_sampled(num_labels, members=members, item_splits=splits)
    if sampled != "all" and sampled >= num_labels:
        found = f"{sampled} of {num_labels} labels"
        raise InputError("--sampled", found, f"at most {num_labels - 1}, or `all` others")
    is_drawn = sampled not in ("all", num_labels - 1) or config.sampled_start
    if not (SAMPLERS[config.sampler].uniform or is_drawn):
        found = f"{config.sampler} with all {num_labels - 1} other labels as negatives"
        raise InputError(
            "--sampler", found, "fewer --sampled, or --sampler uniform: otherwise none is drawn"
        )
    return sampled


def _max_in_batch_negatives(config: Config, dataset: Dataset) -> int:
    """The most positives of other points in a batch: one per point, or all of each point."""
    counts = np.diff(dataset.train.labels.indptr)
    largest = np.sort(counts[counts > 0])[-config.batch_size :]
    positives = len(largest) if config.positives == "one" else int(largest.sum())
    # With one label more, B would be K - 1: all other labels, none of them drawn.
    return max(1, min(positives - 1, dataset.train.num_labels - 2))


def _mined(config: Config, num_labels: int, max_mined: int) -> int | Literal["all"]:
    """k', at most `max_mined`."""
    mined = config.mined
    if (
        SAMPLERS[config.sampler].needs_batch_positives
        and isinstance(mined, int)
        and mined >= max_mined
    ):
        if mined != preset(config.preset).mined:
            found = f"{mined} of at most {max_mined} positives of other points in a batch"
            raise InputError("--mined", found, f"fewer than {max_mined}, or all")
        mined = "all"
    if mined == "auto":
        chosen = rules.auto_mined(num_labels)
        mined = "all" if chosen >= max_mined else chosen
    # The k' of a preset is meant for many labels and is lowered; a user's value is an error.
    if mined != "all" and mined > max_mined:
        if mined != preset(config.preset).mined or isinstance(config.sampled, int):
            raise InputError(
                "--mined", f"{mined} of {max_mined} sampled labels", f"at most {max_mined}"
            )
        mined = "all"
    return mined


def _memory(
    config: Config, dataset: Dataset, members: int, epochs: int, *, dense: bool
) -> Literal["on", "off"]:
    """Whether to try a memory: in one process only, and if points can be spared for it."""
    if config.memory == "on":  # it is tried, or an error
        if (obstacle := _data_obstacle(dataset, "--memory")) is not None:
            raise InputError("--memory on", *obstacle)
        if dataset.train.num_points < rules.MIN_MEMORY_POINTS:
            found = f"{dataset.train.num_points} training points"
            expected = f"at least {rules.MIN_MEMORY_POINTS}, or --memory auto"
            raise InputError("--memory on", found, expected)
        return "on"
    if config.memory == "off" or _data_obstacle(dataset, "--memory") is not None:
        return "off"
    train = dataset.train
    values = train.num_points * train.num_features if dense else train.features.nnz
    tried = rules.auto_memory(train.num_points, members, epochs, values, dense=dense)
    return "on" if tried else "off"


def _data_obstacle(dataset: Dataset, flag: str) -> tuple[str, str] | None:
    """(found, expected) for an error if not all points are in this process's memory, else None."""
    if has_several_processes():
        return "several processes", f"one process, or {flag} off"
    if is_mapped(dataset.train.features.indices):
        found = "data that are mapped, because they take a large part of the memory"
        return found, f"more memory, or {flag} off"
    return None


def _label_text(config: Config, dataset: Dataset, weighting: Kind) -> Literal["on", "off"]:
    """Whether to train on label names: in one process, if they improve nearest neighbours."""
    if config.label_text == "off":
        return "off"
    with part("label names"):
        return _choose_label_text(config, dataset, weighting)


def _choose_label_text(config: Config, dataset: Dataset, weighting: Kind) -> Literal["on", "off"]:
    required, train = config.label_text == "on", dataset.train
    obstacle = label_names_obstacle(dataset)
    if obstacle is None and (required or rules.auto_label_text(train.num_points, train.num_labels)):
        names = dataset.name_points
        if names is not None and names.num_points:
            if required:
                return "on"
            trial = try_names(train, names, Weighting.fit(weighting, train.features))
            return "on" if trial is not None and trial.pays else "off"
        obstacle = "no label name with a word of the vocabulary", "--label-text off"
    if required and obstacle is not None:
        raise InputError("--label-text on", *obstacle)
    return "off"


def label_names_obstacle(dataset: Dataset) -> tuple[str, str] | None:
    """(found, expected) for an error if label names cannot be trained on, or None if they can.

    It does not check whether the names have words of the vocabulary.
    """
    if (obstacle := _data_obstacle(dataset, "--label-text")) is not None:
        return obstacle
    if dataset.label_names is None or dataset.vectorizer is None:
        found = f"{dataset.name} without {'label names' if dataset.vectorizer else 'a vectorizer'}"
        return found, "texts and labels that `snm data import` converted"
    if features_are_labels(dataset):
        return "features that are the labels", "texts that label names have words of"
    if importlib.util.find_spec("sklearn") is None:
        found = "no scikit-learn, which turns label names into features"
        return found, f"{pip_install('sklearn')}, or --label-text off"
    return None


def _logit_adjustment(config: Config, memory: str) -> Literal["on", "off"]:
    """Whether to try a logit adjustment: it needs a memory's held-out points, and biases."""
    possible = memory == "on" and config.bias
    if config.logit_adjustment == "on" and not possible:
        found = "no bias" if memory == "on" else "no memory, whose points would choose it"
        raise InputError(
            "--logit-adjustment on", found, "--memory on and --bias, or --logit-adjustment auto"
        )
    return "on" if possible and config.logit_adjustment != "off" else "off"


def _seen(config: Config, dataset: Dataset) -> Literal["keep", "drop"]:
    if config.seen == "keep":
        return "keep"
    same = features_are_labels(dataset)
    if config.seen == "drop":
        if same is False:
            features, labels = dataset.train.num_features, dataset.train.num_labels
            found = f"drop, with {features} features and {labels} labels"
            found += " of other names" if features <= labels else ""
            expected = "the same items in the same order, as `snm data import --same-items` makes"
            raise InputError("--seen", found, expected)
        return "drop"
    if same is False:
        return "keep"
    counts = *count_seen_labels(dataset), dataset.train.labels.nnz
    return "drop" if rules.auto_drops_seen(*counts, same_items=same is True) else "keep"


def _item_splits(config: Config, dataset: Dataset, seen: Literal["keep", "drop"]) -> int:
    """`auto` is 1 if features and labels are the same items; in one process only."""
    if config.item_splits == "auto":
        return 1 if seen == "drop" and not has_several_processes() else 0
    if config.item_splits:
        num_features, num_labels = dataset.train.num_features, dataset.train.num_labels
        if num_features > num_labels:
            found = f"{config.item_splits}, with {num_features} features and {num_labels} labels"
            raise InputError("--item-splits", found, "0, or the same items in the same order")
        if has_several_processes():
            raise InputError("--item-splits", "several processes", "one process, or 0")
    return config.item_splits
