"""What the losses of the head can be told: one object, of which each loss reads its own part."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from snm.errors import InputError, nearest
from snm.losses.rank_weights import Vector, power_law, top
from snm.losses.surrogates import SURROGATES
from snm.losses.transformations import TRANSFORMATIONS

__all__ = ["RANK_SHAPES", "LossOptions", "RankShape", "SampleSizes", "check_words"]


class SampleSizes(NamedTuple):
    """How many negatives there are.

    Attributes:
      num_labels: K.
      sampled: B, the negatives drawn.
      mined: k', how many of them enter the loss.
    """

    num_labels: int
    sampled: int
    mined: int


def _no_tail(_: LossOptions) -> float:
    return 0.0


@dataclass(frozen=True)
class RankShape:
    """How the weights fall over the ranks of the mined negatives.

    Its functions see the options that `RankWeights` keeps; the others have their defaults.

    Attributes:
      of_ranks: from the options and the sizes to the weights of ranks 1 .. k', float64 [k'].
      tail: from the options to the weight of each rank past k', relative to a mined one's.
      equal_over_mined: whether the k' ranks weigh the same and the others nothing, so that order is
        moot.
      equal_if_all_mined: whether all ranks weigh the same where k' = B.
      drawn: whether ranks are drawn in proportion to the weights instead of summed over.
      reads: the settings that only some shapes read, of which it reads these; a run refuses others.
    """

    of_ranks: Callable[[LossOptions, SampleSizes], Vector]
    tail: Callable[[LossOptions], float] = _no_tail
    equal_over_mined: bool = False
    equal_if_all_mined: bool = False
    drawn: bool = False
    reads: frozenset[str] = frozenset()


def _tail_epsilon(options: LossOptions) -> float:
    return options.tail_epsilon


def _top(options: LossOptions, sizes: SampleSizes) -> Vector:
    return top(sizes.mined, **_scaled(options, sizes))


def _power_law(options: LossOptions, sizes: SampleSizes) -> Vector:
    return power_law(sizes.mined, options.power_alpha, **_scaled(options, sizes))


def _scaled(options: LossOptions, sizes: SampleSizes) -> dict[str, Any]:
    """The arguments of `top` and its kin that say what the weights add up to."""
    return dict(
        scale=options.weight_scale,
        sampled=sizes.sampled,
        num_labels=sizes.num_labels,
        retrieval_k=options.retrieval_k,
    )


RANK_SHAPES: dict[str, RankShape] = {
    "top": RankShape(_top, equal_over_mined=True, equal_if_all_mined=True),
    "power-law": RankShape(_power_law, reads=frozenset({"power_alpha"})),
    "epsilon-tail": RankShape(
        _top, tail=_tail_epsilon, equal_if_all_mined=True, reads=frozenset({"tail_epsilon"})
    ),
    "subsample": RankShape(_top, drawn=True, reads=frozenset({"subsample_draws"})),
}
"""Name of `--vartheta` -> shape."""

_TABLES: dict[str, Collection[str]] = {
    "phi": SURROGATES,
    "vartheta": RANK_SHAPES,
    "transformation": TRANSFORMATIONS,
}
_ABOVE_0 = ("ramp_rho", "temperature", "list_grade")
_AT_LEAST = {"retrieval_k": 1, "power_alpha": 0, "subsample_draws": 1, "negative_weight": 0}


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """The parameters of the losses, by the names of the command line; hashable.

    Raises:
      InputError: a word that an option does not know, or a number out of its range.

    Attributes:
      phi: surrogate of the ordered weighted losses, a name of `surrogates.SURROGATES`.
      ramp_rho: margin of the ramp surrogate, above 0.
      vartheta: shape of the weights over ranks, a name of `RANK_SHAPES`.
      weight_scale: mean (the mined negatives weigh 1 together) or surrogate ((K-1)/(kB) each).
      retrieval_k: k of the retrieval loss, which only the surrogate scale needs.
      power_alpha: exponent of power-law, at least 0.
      tail_epsilon: weight of each rank past k' over that of a mined one, for epsilon-tail; at most
        1, so that no rank weighs more than the hardest.
      subsample_draws: negatives drawn from the mined ones, for subsample.
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
        check_words(self, _TABLES)
        for name in _ABOVE_0:
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InputError(f"LossOptions {name}", f"{value}", "a finite number above 0")
        for name, least in _AT_LEAST.items():
            value = getattr(self, name)
            if not least <= value < math.inf:
                raise InputError(
                    f"LossOptions {name}", f"{value}", f"a finite number of at least {least}"
                )
        if not 0 <= self.tail_epsilon <= 1:
            raise InputError("LossOptions tail_epsilon", f"{self.tail_epsilon}", "0.0 to 1.0")


def check_words(options: Any, tables: Mapping[str, Collection[str]]) -> None:
    """Raises `InputError` where a field has a word other than those of its type or its table.

    Args:
      options: a dataclass.
      tables: name of a field -> the words that it may have, for those whose type is no `Literal`.
    """
    hints = get_type_hints(type(options))
    words = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
    for name, known in {**words, **tables}.items():
        word = getattr(options, name)
        if word not in known:
            some = " or ".join(known) if len(known) <= 3 else f"one of {', '.join(known)}"
            where = f"{type(options).__name__} {name}"
            raise InputError(where, repr(word), nearest(str(word), known, some))
