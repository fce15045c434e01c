"""Resolved settings -> the head and the model that they describe."""

from __future__ import annotations

import dataclasses

from snm.config.resolved import ResolvedConfig
from snm.head.spec import HeadSpec
from snm.losses.mined_lists import LIST_LOSSES, ListLoss
from snm.model.model import Model

__all__ = ["head_spec", "head_stages", "make_model"]


_OFFSET = 1.1  # the linear psi is then 21 times as large at the highest score as at the lowest


def head_spec(config: ResolvedConfig, num_labels: int) -> HeadSpec:
    """The head that settings describe, over K labels."""
    sampled = num_labels - 1 if config.sampled == "all" else config.sampled
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
        learn_scale=config.learn_score_scale,
        compute_dtype=config.compute_dtype,
        table_dtype=config.table_dtype,
    )


def _list_loss(config: ResolvedConfig) -> ListLoss | None:
    if config.loss not in LIST_LOSSES:
        return None
    return ListLoss(
        config.loss,
        transformation=config.transformation,
        temperature=config.temperature,
        grade=config.score_scale,
        # The largest score is the multiplier, but for rounding; psi is positive above -offset.
        offset=_OFFSET * config.score_scale / config.temperature,
    )


def head_stages(config: ResolvedConfig, num_labels: int, steps: int) -> list[tuple[int, HeadSpec]]:
    """The heads of a run of `steps` steps, each with the first step that uses it.

    There is one, unless `mined_start` is set. Then k' is halved from `mined_start` down to `mined`,
    and the run spends the same number of steps on each k'.
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


def make_model(
    config: ResolvedConfig, num_features: int, num_labels: int, total_steps: int
) -> Model:
    """The model of one member.

    Args:
      config: the settings.
      num_features: d.
      num_labels: K.
      total_steps: steps over which the rates fall; 1 where the model is not trained.
    """
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
        drop_seen=config.seen == "drop",
    )
