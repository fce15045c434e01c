"""Settings and the data -> settings with no `auto` left, and the model that they mean."""

from __future__ import annotations

import dataclasses
from typing import Literal

from snm.config import auto as rules
from snm.config.settings import Config, preset
from snm.data.dataset import Dataset
from snm.distributed.dataset import seen_labels
from snm.errors import InputError
from snm.head.spec import HeadSpec
from snm.losses.mined_lists import LIST_LOSSES, ListLoss
from snm.model.model import Model
from snm.sampling.sample import auto_size

__all__ = ["head_spec", "head_stages", "make_model", "resolve"]

_OFFSET = 1.1  # the linear psi is then 21 times as large at the highest score as at the lowest


def resolve(config: Config, dataset: Dataset) -> Config:
    """Replaces settings that depend on the data by their values.

    Raises:
      InputError: a setting that does not fit the data: an integer B >= K, k' > B.
    """
    config.check()
    num_labels = dataset.train.num_labels
    if num_labels < 2:
        raise InputError("data", f"{num_labels} label", "at least 2: there are no negatives")
    if not dataset.train.labels.nnz:
        raise InputError("data", "no training point with a label", "at least one")
    members = config.members
    if members == "auto":
        members = rules.auto_members(dataset.train.num_points)
    sampled: int | Literal["all"]
    sampled = config.sampled
    if sampled == "auto":
        sampled = auto_size(num_labels, members=members)
    if config.sampler == "in-batch":
        # The candidates are the batch's own positives; one label more would mean "all others".
        sampled = min(config.batch_size, max(1, num_labels - 2))
    if sampled != "all" and sampled >= num_labels:
        found = f"{sampled} of {num_labels} labels"
        raise InputError("--sampled", found, f"at most {num_labels - 1}, or `all` others")
    most = num_labels - 1 if sampled == "all" else sampled
    mined: int | Literal["all"]
    if config.mined == "auto":
        suits = rules.auto_mined(num_labels)
        mined = "all" if suits >= most else suits
    else:
        mined = config.mined
    # The k' of a preset is meant for many labels; asked for by the user, it is refused instead.
    if isinstance(mined, int) and mined > most:
        if mined != preset(config.preset).mined or isinstance(config.sampled, int):
            raise InputError("--mined", f"{mined} of {most} sampled labels", f"at most {most}")
        mined = "all"
    start = config.mined_start
    if start and (mined == "all" or (isinstance(start, int) and not mined <= start <= most)):
        low = "--mined, which is all" if mined == "all" else f"{mined} (--mined)"
        raise InputError("--mined-start", f"{start}", f"a number from {low} to {most}, or 0")
    points_of_label = dataset.train.labels.nnz / num_labels
    exponentials = rules.takes_exponentials(config.loss, config.transformation)
    scale, learned = config.score_scale, config.learn_score_scale
    if learned == "auto":
        learned = scale == "auto" and exponentials and rules.auto_learn_scale(points_of_label)
    if scale == "auto":
        scale = rules.auto_score_scale(num_labels) if exponentials else 1.0
    rate, epochs = config.learning_rate, config.epochs
    if rate == "auto":
        rate = rules.auto_learning_rate(config.loss, config.transformation)
    if epochs == "auto":
        epochs = rules.auto_epochs(dataset.train.num_points)
    dropout = config.input_dropout
    if dropout == "auto":
        dropout = rules.auto_input_dropout(points_of_label)
    return dataclasses.replace(
        config,
        seen=_seen(config, dataset),
        sampled=sampled,
        mined=mined,
        input_dropout=dropout,
        score_scale=scale,
        learn_score_scale=learned,
        learning_rate=rate,
        epochs=epochs,
        members=members,
    )


def _seen(config: Config, dataset: Dataset) -> Literal["keep", "drop"]:
    num_features, num_labels = dataset.train.num_features, dataset.train.num_labels
    if config.seen == "keep":
        return "keep"
    if num_features != num_labels:
        if config.seen == "drop":
            found = f"drop, with {num_features} features and {num_labels} labels"
            raise InputError("--seen", found, "as many of both, the same items in the same order")
        return "keep"
    if config.seen == "drop":
        return "drop"
    return "drop" if rules.auto_drops_seen(*seen_labels(dataset)) else "keep"


def head_spec(config: Config, num_labels: int) -> HeadSpec:
    """The head of a resolved configuration."""
    sampled = num_labels - 1 if config.sampled == "all" else config.sampled
    assert isinstance(sampled, int) and config.mined != "auto"  # resolved
    return HeadSpec(
        num_labels=num_labels,
        sampled=sampled,
        mined=sampled if config.mined == "all" else config.mined,
        # With two grades RankSVM's pairs are POWL's: see `snm.losses.mined_lists`.
        loss="powl" if config.loss == "ranksvm" else config.loss,
        list_loss=_list_loss(config),
        phi=config.phi,
        ramp_rho=config.ramp_rho,
        vartheta=config.vartheta,
        weight_scale=config.weight_scale,
        retrieval_k=config.retrieval_k,
        power_alpha=config.power_alpha,
        tail_epsilon=config.tail_epsilon,
        subsample_draws=config.subsample_draws,
        negative_weight=config.negative_weight,
        exclude=config.exclude,
        positives=config.positives,
        row_optimizer=config.row_optimizer,
        bias=config.bias,
        learn_scale=config.learn_score_scale is True,
        compute_dtype=config.compute_dtype,
        table_dtype=config.table_dtype,
    )


def _list_loss(config: Config) -> ListLoss | None:
    if config.loss not in LIST_LOSSES:
        return None
    assert config.score_scale != "auto"  # resolved
    return ListLoss(
        config.loss,
        transformation=config.transformation,
        temperature=config.temperature,
        grade=config.score_scale,
        # The largest score is the multiplier, but for rounding; psi is positive above -offset.
        offset=_OFFSET * config.score_scale / config.temperature,
    )


def head_stages(config: Config, num_labels: int, steps: int) -> list[tuple[int, HeadSpec]]:
    """The heads of a run of `steps` steps: each with the step that it is used from.

    One, unless k' falls: then it is halved from `mined_start` down to `mined`, and every k' is
    used for the same number of steps.
    """
    last = head_spec(config, num_labels)
    if not config.mined_start:
        return [(0, last)]
    mined = [last.sampled if config.mined_start == "all" else config.mined_start]
    while mined[-1] > last.mined:
        mined.append(max(mined[-1] // 2, last.mined))
    return [
        (number * steps // len(mined), dataclasses.replace(last, mined=count))
        for number, count in enumerate(mined)
    ]


def make_model(config: Config, num_features: int, num_labels: int, total_steps: int) -> Model:
    """The model of a resolved configuration."""
    assert config.score_scale != "auto"  # resolved
    assert config.learning_rate != "auto" and config.input_dropout != "auto"
    return Model(
        head=head_spec(config, num_labels),
        num_features=num_features,
        dim=config.dim,
        encoder=config.encoder,
        feature_init=config.feature_init,
        score_scale=config.score_scale,
        input_dropout=config.input_dropout,
        learning_rate=config.learning_rate,
        tower_learning_rate=config.tower_learning_rate,
        tower_momentum=config.tower_momentum,
        scale_learning_rate=config.scale_learning_rate,
        schedule=config.schedule,
        total_steps=total_steps,
        seed=config.seed,
        drop_seen=config.seen == "drop",  # `auto` where a run is older than the setting
    )
