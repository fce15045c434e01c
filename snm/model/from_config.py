"""Resolved settings -> the head and the model that they describe."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from math import floor

from snm.config.checks import check_name
from snm.config.loss_options import loss_options
from snm.config.resolved import ResolvedConfig
from snm.config.stages import Sizes, SizeSchedule
from snm.head.spec import HeadSpec
from snm.losses.sampled import LOSSES
from snm.model.model import Model

__all__ = ["head_spec", "head_stages", "make_model"]

_SHARED_FIELDS = {field.name for field in dataclasses.fields(HeadSpec)} & {
    field.name for field in dataclasses.fields(ResolvedConfig)
}


def head_spec(config: ResolvedConfig, num_labels: int) -> HeadSpec:
    """The head that a resolved configuration describes.

    Raises:
      InputError: a loss that is not in `LOSSES`, such as a custom loss that is not registered here.
    """
    check_name("loss", "loss", config.loss)
    sampled = num_labels - 1 if config.sampled == "all" else config.sampled
    shared = {name: getattr(config, name) for name in _SHARED_FIELDS}
    # Only some listwise losses read the scale; with 1.0, all others share one compiled program.
    reads_scale = "list_grade" in LOSSES[config.loss].option_names
    return HeadSpec(
        **shared
        | dict(
            num_labels=num_labels,
            sampled=sampled,
            mined=sampled if config.mined == "all" else config.mined,
            options=loss_options(config, list_grade=config.score_scale if reads_scale else 1.0),
            learn_scale=config.learn_score_scale,
        )
    )


def head_stages(config: ResolvedConfig, num_labels: int, steps: int) -> list[tuple[int, HeadSpec]]:
    """The first step and the head of each stage of a run of `steps` steps, in order from step 0.

    There is one, unless B or k' start from another value than they end at.
    """
    head, schedule = head_spec(config, num_labels), SizeSchedule.of(config, num_labels)
    # A stage begins with the first step after which more than its share of the run is done.
    first_steps = sorted({0, *(floor(share * steps) for share in schedule.shares[:-1])})
    stages: list[tuple[int, HeadSpec]] = []
    previous: Sizes | None = None
    for step in first_steps:
        sizes = schedule(Fraction(step + 1, steps))
        if sizes != previous:
            spec = dataclasses.replace(head, sampled=sizes.sampled, mined=sizes.mined)
            stages.append((step, spec))
            previous = sizes
    return stages


def make_model(config: ResolvedConfig, num_features: int, num_labels: int) -> Model:
    """The model of one member.

    Args:
      config: the settings.
      num_features: d.
      num_labels: K.
    """
    return Model(
        spec=head_spec(config, num_labels),
        num_features=num_features,
        dim=config.dim,
        encoder=config.encoder,
        feature_init=config.feature_init,
        score_scale=config.score_scale,
        tower_momentum=config.tower_momentum,
        drop_seen=config.seen == "drop",
    )
