"""Resolved settings -> the head and the model that they describe."""

from __future__ import annotations

import dataclasses

from snm.config.resolved import ResolvedConfig
from snm.head.spec import HeadSpec
from snm.losses.sampled import LOSSES
from snm.model.model import Model

__all__ = ["head_spec", "head_stages", "make_model"]


_SHARED = {field.name for field in dataclasses.fields(HeadSpec)} & {
    field.name for field in dataclasses.fields(ResolvedConfig)
}


def head_spec(config: ResolvedConfig, num_labels: int) -> HeadSpec:
    """The head of a resolved configuration: settings of the same name, and what follows."""
    sampled = num_labels - 1 if config.sampled == "all" else config.sampled
    shared = {name: getattr(config, name) for name in _SHARED}
    lists = LOSSES[config.loss].per_list  # others share a program whatever their scale
    return HeadSpec(
        **shared
        | dict(
            num_labels=num_labels,
            sampled=sampled,
            mined=sampled if config.mined == "all" else config.mined,
            learn_scale=config.learn_score_scale,
            list_grade=config.score_scale if lists else 1.0,
        )
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


def make_model(config: ResolvedConfig, num_features: int, num_labels: int) -> Model:
    """The model of one member.

    Args:
      config: the settings.
      num_features: d.
      num_labels: K.
    """
    return Model(
        head=head_spec(config, num_labels),
        num_features=num_features,
        dim=config.dim,
        encoder=config.encoder,
        feature_init=config.feature_init,
        score_scale=config.score_scale,
        learning_rate=config.learning_rate,
        tower_learning_rate=config.tower_learning_rate,
        tower_momentum=config.tower_momentum,
        scale_learning_rate=config.scale_learning_rate,
        seed=config.seed,
        drop_seen=config.seen == "drop",
    )
