"""The arms of a comparison: named settings, each with a baseline arm and a tuning grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from snm.config.checks import check_name
from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config, reject_unused_settings, unused_settings
from snm.errors import InputError
from snm.losses.sampled import LOSSES
from snm.text import nearest

__all__ = ["BASELINE", "EXTRAS", "Arm", "ResolvedArm", "plan_arms", "tuning_grid"]

BASELINE = "negative-sampling"
"""Name of the baseline arm: all sampled labels are negatives."""

_LISTWISE_SETTINGS: dict[str, Any] = {"positives": "all", "exclude": "all"}
"""Settings of every arm with a listwise loss: the list of a point has all of its positives."""


@dataclasses.dataclass(frozen=True)
class Arm:
    """Named settings.

    Attributes:
      name: unique within a comparison.
      config: all settings; the seed is set per run.
      baseline: name of the arm of negative sampling whose training time this arm has at equal
        seconds, and whose means those of this arm are divided by, if both have the same loss.
      about: a one-line description.
    """

    name: str
    config: Config
    baseline: str
    about: str


@dataclasses.dataclass(frozen=True)
class ResolvedArm(Arm):
    """An arm whose settings are resolved for a data set."""

    config: ResolvedConfig


Changes = dict[str, Any]

_AUTO_SETTINGS: Changes = {"score_scale": "auto", "learning_rate": "auto"}
"""Settings that each loss chooses for itself."""


def _has_negative_weight(loss: str) -> bool:
    """Whether the loss reads `--negative-weight`, as bowl and powl do."""
    return "negative_weight" in LOSSES[loss].option_names


def _with_loss(loss: str) -> Changes:
    """The changes of settings for a loss other than that of the base.

    Score scale and learning rate become automatic. bowl and powl keep those of the base, because
    the paper's scores in [-1, 1] and learning rate suit them.
    """
    changes: Changes = {"loss": loss}
    return changes if _has_negative_weight(loss) else changes | _AUTO_SETTINGS


EXTRAS: dict[str, tuple[str, Changes]] = {
    "power-law": ("weights 1/rank over the mined labels", {"vartheta": "power-law"}),
    "epsilon-tail": (
        "top-k', and 1% of that weight on every other sampled label",
        {"vartheta": "epsilon-tail"},
    ),
    "subsample": ("4 negatives drawn from the mined ones", {"vartheta": "subsample"}),
    "all-labels": (
        "mined from all labels instead of a sample",
        {"sampled": "all", "sampled_start": 0},
    ),
    "anneal": ("k' falls from B by halves", {"mined_start": "all"}),
    "logistic": (
        "negative sampling with the logistic surrogate",
        {"mined": "all", "phi": "logistic"},
    ),
    "squared-hinge": (
        "negative sampling with the squared hinge",
        {"mined": "all", "phi": "squared_hinge"},
    ),
    "frequency": (
        "softmax over labels drawn by frequency, corrected by log Q",
        {"mined": "all", "sampler": "frequency", **_with_loss("softmax")},
    ),
    "in-batch": (
        "softmax over the batch's own positives, corrected by log Q",
        {"mined": "all", "sampler": "in-batch", **_with_loss("softmax")},
    ),
    "full-softmax": (
        "softmax over all labels",
        {"mined": "all", "sampled": "all", "sampled_start": 0, **_with_loss("softmax")},
    ),
}
"""Optional arms: name -> description, and changed settings, to which `plan_arms` adds k'."""


def plan_arms(
    base: Config,
    *,
    mined: Sequence[int],
    losses: Sequence[str],
    extras: Sequence[str] = (),
    exclude_all: bool = False,
) -> list[Arm]:
    """Makes the arms of a comparison.

    Each loss has negative sampling and top-k' for each k'. Names of arms start with the loss,
    except for the first loss.

    Args:
      base: settings that all arms share.
      mined: values of k'.
      losses: bowl, powl, softmax or listwise losses. Listwise losses are trained with all positives
        of a point, independent of `base`.
      extras: keys of `EXTRAS`; they use the value of `mined` nearest to 16. The baseline is
        negative sampling with the loss of the extra, or with the first loss if `losses` lacks it.
      exclude_all: whether to add a variant of each arm that excludes all known labels of a point
        from its negatives.

    Raises:
      InputError: an unknown extra or loss, or a repeated k', loss or extra; or a setting of `base`
        that no arm reads.
    """
    for flag, values in (("--mined", mined), ("--losses", losses), ("--extras", extras)):
        repeated = [value for value in values if list(values).count(value) > 1]
        if repeated:
            raise InputError(flag, f"{repeated[0]} twice", "each once")
    arms = []
    for number, loss in enumerate(losses):
        check_name("--losses", "loss", loss)
        changes = {} if loss == base.loss else _with_loss(loss)
        if LOSSES[loss].listwise:
            changes |= _LISTWISE_SETTINGS
        prefix = f"{loss}-" if number else ""
        arms += _loss_arms(dataclasses.replace(base, **changes), prefix, mined, exclude_all)
    middle = min(mined, key=lambda k: abs(k - 16)) if mined else 16
    for name in extras:
        if name not in EXTRAS:
            expected = nearest(name, EXTRAS, f"one of {', '.join(EXTRAS)}")
            raise InputError("--extras", f"{name!r}", expected)
        about, settings = EXTRAS[name]
        changed = {"mined": middle, **settings}
        if changed.get("loss") == base.loss:  # then score scale and learning rate are for this loss
            changed |= {name: getattr(base, name) for name in _AUTO_SETTINGS}
        config = dataclasses.replace(arms[0].config, **changed)
        others = unused_settings(config)
        if any(changed.get(name, plain) != plain for name, plain in others.items()):
            found = f"{name} where {config.loss} is the first loss"
            raise InputError("--extras", found, "bowl or powl, whose weights and surrogate it sets")
        suffix = "" if config.mined == "all" else f" (k' {middle})"
        prefix = f"{config.loss}-" if config.loss in losses[1:] else ""
        arms.append(Arm(name, config, prefix + BASELINE, about + suffix))
    # A setting that no arm uses is an error; one that only some arms use is reset in the others.
    unused = [unused_settings(arm.config) for arm in arms]
    reject_unused_settings(base, set.intersection(*map(set, unused)))
    return [
        dataclasses.replace(arm, config=dataclasses.replace(arm.config, **plain))
        for arm, plain in zip(arms, unused, strict=True)
    ]


def _loss_arms(base: Config, prefix: str, mined: Sequence[int], exclude_all: bool) -> list[Arm]:
    baseline = prefix + BASELINE
    unmined = dataclasses.replace(base, mined="all")
    listwise = LOSSES[base.loss].listwise
    loss = f"{base.loss} over lists of all positives" if listwise else base.loss
    arms = [Arm(baseline, unmined, baseline, f"{loss}, all sampled labels are negatives")]
    for k in mined:
        config = dataclasses.replace(base, mined=k)
        about = f"{loss}, the {k} highest scoring of the sample are negatives"
        arms.append(Arm(f"{prefix}top-{k}", config, baseline, about))
    if exclude_all and base.exclude != "all":
        arms += [
            dataclasses.replace(
                arm,
                name=f"{arm.name}-exclude-all",
                config=dataclasses.replace(arm.config, exclude="all"),
                about=f"{arm.about}; no known label is one",
            )
            for arm in arms
        ]
    return arms


def tuning_grid(config: ResolvedConfig) -> list[Changes]:
    """The tuning grid of an arm: six settings, the same number for every arm.

    Three learning rates around that of the arm, times two weights of the negatives, with its own
    first. POWL is a sum over negatives only, so the weight scales the whole loss: its grid has six
    step lengths. Softmax and the listwise losses have no such weight; their grid has two score
    scales instead.
    """
    weight = config.negative_weight
    variants: list[Changes] = [{"negative_weight": weight}, {"negative_weight": 4 * weight}]
    if not _has_negative_weight(config.loss):
        scale = config.score_scale
        variants = [{"score_scale": scale}, {"score_scale": round(scale * 0.7, 3)}]
    rates = [round(config.learning_rate * factor, 6) for factor in (1 / 3, 1.0, 3.0)]
    return [{"learning_rate": rate, **other} for other in variants for rate in rates]
