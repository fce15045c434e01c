"""The parameters of the losses of the head, in one object; each loss reads some of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from snm.errors import InputError
from snm.losses.rank_weights import power_law, top
from snm.losses.surrogates import SURROGATES, Phi
from snm.losses.theta import Vector
from snm.losses.transformations import TRANSFORMATIONS
from snm.system.field_checks import check_choices, check_types

__all__ = [
    "PHI_OPTIONS",
    "RANK_SHAPES",
    "USED_WITH_ANY_LOSS",
    "LossOptions",
    "RankShape",
    "SampleSizes",
    "unread_options",
]


class SampleSizes(NamedTuple):
    """The numbers of labels and negatives.

    Attributes:
      num_labels: K.
      sampled: B, the negatives drawn.
      mined: k', the number of sampled negatives that enter the loss.
    """

    num_labels: int
    sampled: int
    mined: int


# A spec is pickled with these functions, so they are not lambdas.
def _no_tail(_: LossOptions) -> float:
    return 0.0


@dataclass(frozen=True)
class RankShape:
    """How the weights depend on the rank of a mined negative.

    The functions get only the options in `ranks.RANK_WEIGHT_OPTIONS`; others have their defaults.

    Attributes:
      weights: (options, sizes) -> the weights of ranks 1 .. k', float64 [k'].
      tail: options -> the weight of each rank past k', relative to that of a mined one.
      equal_over_mined: whether the k' mined ranks have equal weights and the others weight 0, so
        that the order does not matter.
      equal_if_all_mined: whether all ranks have equal weights if k' = B.
      drawn: whether ranks are drawn in proportion to the weights, instead of summed over.
      option_names: the options that only some shapes use; a run rejects those of other shapes.
    """

    weights: Callable[[LossOptions, SampleSizes], Vector]
    tail: Callable[[LossOptions], float] = _no_tail
    equal_over_mined: bool = False
    equal_if_all_mined: bool = False
    drawn: bool = False
    option_names: frozenset[str] = frozenset()


def _tail_epsilon(options: LossOptions) -> float:
    return options.tail_epsilon


def _top(options: LossOptions, sizes: SampleSizes) -> Vector:
    return top(sizes.mined, **_scale_arguments(options, sizes))


def _power_law(options: LossOptions, sizes: SampleSizes) -> Vector:
    return power_law(sizes.mined, options.power_alpha, **_scale_arguments(options, sizes))


def _scale_arguments(options: LossOptions, sizes: SampleSizes) -> dict[str, Any]:
    """The keyword arguments of `top` and `power_law` that set the scale of the weights."""
    return dict(
        scale=options.weight_scale,
        sampled=sizes.sampled,
        num_labels=sizes.num_labels,
        retrieval_k=options.retrieval_k,
    )


RANK_SHAPES: dict[str, RankShape] = {
    "top": RankShape(_top, equal_over_mined=True, equal_if_all_mined=True),
    "power-law": RankShape(_power_law, option_names=frozenset({"power_alpha"})),
    "epsilon-tail": RankShape(
        _top, tail=_tail_epsilon, equal_if_all_mined=True, option_names=frozenset({"tail_epsilon"})
    ),
    "subsample": RankShape(_top, drawn=True, option_names=frozenset({"subsample_draws"})),
}
"""Name of `--vartheta` -> shape."""

PHI_OPTIONS = frozenset[str]().union(*(phi.option_names for phi in SURROGATES.values()))
"""The options that a `Phi` can read."""

_READERS: dict[str, Mapping[str, RankShape | Phi]] = {"vartheta": RANK_SHAPES, "phi": SURROGATES}
"""The tables whose objects name the options that they read."""

_TABLES: dict[str, Collection[str]] = {
    "phi": SURROGATES,
    "vartheta": RANK_SHAPES,
    "transformation": TRANSFORMATIONS,
}
_POSITIVE = ("ramp_rho", "temperature", "list_grade")
_MINIMUM = {"retrieval_k": 1, "power_alpha": 0, "subsample_draws": 1, "negative_weight": 0}


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """The parameters of the losses, with the names of the command line; hashable.

    Raises:
      InputError: an unknown choice, a value of another type, or a number out of range.

    Attributes:
      phi: surrogate of the ordered weighted losses, a name of `surrogates.SURROGATES`.
      ramp_rho: margin of the ramp surrogate, above 0.
      vartheta: shape of the weights over ranks, a name of `RANK_SHAPES`.
      weight_scale: mean (the weights of the mined negatives add up to 1) or surrogate ((K-1)/(kB)
        each).
      retrieval_k: k of the retrieval loss, which only the surrogate scale needs.
      power_alpha: exponent of power-law, at least 0.
      tail_epsilon: weight of each rank past k', relative to a mined one, for epsilon-tail; 0 to 1.
      subsample_draws: number of negatives drawn from the mined ones, for subsample.
      negative_weight: multiplies the weight of every negative (ordered weighted losses).
      transformation: of scores, in the listwise losses; a name of
        `transformations.TRANSFORMATIONS`.
      temperature: divides the scores of the listwise losses; above 0.
      list_grade: relevance of a positive in the listwise losses, in the unit of the scores.
    """

    phi: str = "hinge"
    ramp_rho: float = 1.0
    vartheta: str = "top"
    weight_scale: Literal["mean", "surrogate"] = "mean"
    retrieval_k: int = 1
    power_alpha: float = 1.0
    tail_epsilon: float = 0.01
    subsample_draws: int = 4
    negative_weight: float = 1.0
    transformation: str = "exponential"
    temperature: float = 1.0
    list_grade: float = 1.0

    def __post_init__(self) -> None:
        check_types(self)
        check_choices(self, _TABLES)
        if not isinstance(SURROGATES[self.phi], Phi):
            found = f"{self.phi}, for which SURROGATES has {SURROGATES[self.phi]!r}"
            raise InputError("LossOptions phi", found, "a Phi there")
        for name in _POSITIVE:
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InputError(f"LossOptions {name}", f"{value}", "a finite number above 0")
        for name, minimum in _MINIMUM.items():
            value = getattr(self, name)
            if not minimum <= value < math.inf:
                raise InputError(
                    f"LossOptions {name}", f"{value}", f"a finite number of at least {minimum}"
                )
        if not 0 <= self.tail_epsilon <= 1:
            raise InputError("LossOptions tail_epsilon", f"{self.tail_epsilon}", "0.0 to 1.0")


USED_WITH_ANY_LOSS = frozenset({"retrieval_k"})
"""Options that are read whatever the loss is: `snm bounds` and `snm compare` read them."""


def unread_options(options: LossOptions, read: Collection[str]) -> dict[str, str]:
    """The options that differ from their defaults, although nothing reads them.

    Args:
      options: the options.
      read: the names of those that the loss reads (`HeadLoss.option_names`).

    Returns:
      Name -> why it is not read, as what is expected instead.
    """
    found = {}
    for name, default in ((field.name, field.default) for field in fields(options)):
        if getattr(options, name) == default or name in USED_WITH_ANY_LOSS:
            continue
        if name not in read:
            found[name] = f"{', '.join(sorted(read)) or 'none'}: it reads no others"
            continue
        for setting, table in _READERS.items():
            readers = {key for key, each in table.items() if name in each.option_names}
            if readers and (chosen := getattr(options, setting)) not in readers:
                found[name] = f"none of it: {setting} {chosen} does not read it"
    return found
