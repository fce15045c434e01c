"""Which settings a comparison sets against each other, and by what they are compared."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Sequence
from typing import Any

from snm.config.resolved import ResolvedConfig
from snm.config.settings import Config, check_name
from snm.errors import InputError
from snm.losses.sampled import LOSSES

__all__ = ["BASELINE", "EXTRAS", "Arm", "ResolvedArm", "grid_of", "plan_arms"]

BASELINE = "negative-sampling"
"""The arm that others are divided by: all sampled labels are negatives."""

_SOFTMAX: dict[str, Any] = {"score_scale": "auto", "learning_rate": 20.0}
"""What a softmax takes from the default preset where the other settings are the paper's, whose
scores in [-1, 1] and rate are made for margins."""


_LISTS: dict[str, Any] = {
    "score_scale": "auto",
    "learning_rate": "auto",
    "positives": "all",
    "exclude": "all",
}
"""What a listwise loss takes: its own scale and rate, and whole lists, for a list of one positive
is no list."""


@dataclasses.dataclass(frozen=True)
class Arm:
    """Settings with a name.

    Attributes:
      name: unique within a comparison.
      config: all settings; the seed is not yet chosen.
      baseline: the arm that this one's metrics are divided by, seed by seed.
      about: one line for readers.
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


def _mining(mined: int, **changes: Any) -> Changes:
    return {"mined": mined, **changes}


EXTRAS: dict[str, tuple[str, Callable[[int], Changes]]] = {
    "power-law": (
        "weights 1/rank over the mined labels",
        lambda k: _mining(k, vartheta="power-law"),
    ),
    "epsilon-tail": (
        "top-k', and 1% of that weight on every other sampled label",
        lambda k: _mining(k, vartheta="epsilon-tail"),
    ),
    "subsample": (
        "4 negatives drawn from the mined ones",
        lambda k: _mining(k, vartheta="subsample"),
    ),
    "all-labels": (
        "mined from all labels instead of a sample",
        lambda k: _mining(k, sampled="all"),
    ),
    "anneal": (
        "k' falls from B by halves",
        lambda k: _mining(k, mined_start="all"),
    ),
    "logistic": (
        "negative sampling with the logistic surrogate",
        lambda k: {"mined": "all", "phi": "logistic"},
    ),
    "squared-hinge": (
        "negative sampling with the squared hinge",
        lambda k: {"mined": "all", "phi": "squared_hinge"},
    ),
    "frequency": (
        "softmax over labels drawn by frequency, corrected by log Q",
        lambda k: {"mined": "all", "loss": "softmax", "sampler": "frequency", **_SOFTMAX},
    ),
    "in-batch": (
        "softmax over the batch's own positives, corrected by log Q",
        lambda k: {"mined": "all", "loss": "softmax", "sampler": "in-batch", **_SOFTMAX},
    ),
    "full-softmax": (
        "softmax over all labels",
        lambda k: {"mined": "all", "loss": "softmax", "sampled": "all", **_SOFTMAX},
    ),
}
"""Arms on request: name -> what it is, and its settings for a k'."""


def plan_arms(
    base: Config,
    *,
    mined: Sequence[int],
    losses: Sequence[str],
    extras: Sequence[str] = (),
    exclude_all: bool = False,
) -> list[Arm]:
    """The arms of a comparison.

    Negative sampling and top-k' for each k', in each loss; the first loss has the plain names.

    Args:
      base: settings that all arms share.
      mined: every k'.
      losses: of bowl, powl, softmax and the listwise ones, whose lists hold all positives of a
        point, whatever `base` says.
      extras: names of `EXTRAS`; they use the k' of `mined` nearest to 16.
      exclude_all: also every top-k' with all known labels of a point left out of its negatives.

    Raises:
      InputError: an unknown extra or loss, or a k' or a loss twice.
    """
    for flag, values in (("--mined", mined), ("--losses", losses), ("--extras", extras)):
        repeated = [value for value in values if list(values).count(value) > 1]
        if repeated:
            raise InputError(flag, f"{repeated[0]} twice", "each once")
    arms = []
    for number, loss in enumerate(losses):
        check_name("--losses", "loss", loss)
        changes: Changes = {} if loss == base.loss else {"loss": loss}
        if LOSSES[loss].listwise:
            changes |= _LISTS
        elif changes and not LOSSES[loss].ordered:
            changes |= _SOFTMAX
        prefix = f"{loss}-" if number else ""
        arms += _of_loss(dataclasses.replace(base, **changes), prefix, mined, exclude_all)
    middle = min(mined, key=lambda k: abs(k - 16)) if mined else 16
    for name in extras:
        if name not in EXTRAS:
            near = difflib.get_close_matches(name, EXTRAS, n=1, cutoff=0.0)[0]
            raise InputError("--extras", f"{name!r}", f"for example {near}")
        about, settings = EXTRAS[name]
        config = dataclasses.replace(arms[0].config, **settings(middle))
        used = "" if config.mined == "all" else f" (k' {middle})"
        arms.append(Arm(name, config, BASELINE, about + used))
    return arms


def _of_loss(base: Config, prefix: str, mined: Sequence[int], exclude_all: bool) -> list[Arm]:
    baseline = prefix + BASELINE
    whole = dataclasses.replace(base, mined="all")
    of = f"{base.loss} over lists of all positives" if LOSSES[base.loss].listwise else base.loss
    arms = [Arm(baseline, whole, baseline, f"{of}, all sampled labels are negatives")]
    for k in mined:
        config = dataclasses.replace(base, mined=k)
        about = f"{of}, the {k} highest scoring of the sample are negatives"
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


def grid_of(config: ResolvedConfig) -> list[Changes]:
    """The settings that tuning tries: as many for every arm.

    Three rates around the arm's own, times two weights of the negatives; a softmax and the listwise
    losses have no such weight, and try two score scales instead.
    """
    second: list[Changes] = [{"negative_weight": 1.0}, {"negative_weight": 4.0}]
    if not LOSSES[config.loss].ordered:
        scale = config.score_scale
        second = [{"score_scale": scale}, {"score_scale": round(scale * 0.7, 3)}]
    rates = [round(config.learning_rate * factor, 6) for factor in (1 / 3, 1.0, 3.0)]
    return [{"learning_rate": rate, **other} for other in second for rate in rates]
