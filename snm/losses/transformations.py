r"""Transformations psi of scores in the listwise losses: one object per family, in one table.

A transformation is increasing and strictly positive (Lan et al., 2009, section 3.2). Those of one
family share a function g: psi(x) = g(a x) with a slope a, or g(a x + b) with an offset b too.

References:
  Lan, Liu, Ma, Li (2009), Generalization analysis of listwise learning-to-rank algorithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax
import jax.numpy as jnp

from snm.errors import InputError

__all__ = [
    "TRANSFORMATIONS",
    "Transformation",
    "TransformationFamily",
    "exponential",
    "linear",
    "sigmoid",
]

Scores = TypeVar("Scores", float, jax.Array)


@dataclass(frozen=True)
class TransformationFamily:
    """Transformations with a common function g; call it with a slope and an offset to get one.

    Attributes:
      name: its key in `TRANSFORMATIONS`.
      log: log g, elementwise on arrays; computed so that no exponential overflows.
      log_of_float: log g of one number, in float64.
      log_max_slope: maps u to the logarithm of the largest slope of g(v + b) over -u <= v <= u, in
        float64.
      offset: the default of b, for a g that is positive for positive numbers only. None for a g
        that is positive everywhere, which has no b.
      takes_exponentials: whether g contains an exponential, so that the slope a is an inverse
        temperature and not just a factor.
    """

    name: str
    log: Callable[[jax.Array], jax.Array]
    log_of_float: Callable[[float], float]
    log_max_slope: Callable[[float], float]
    offset: float | None = None
    takes_exponentials: bool = True

    def __call__(self, a: float = 1.0, b: float | None = None) -> Transformation:
        """The transformation of slope a and, where the family has one, offset b.

        Raises:
          InputError: a is not above 0, or the family has no offset.
        """
        if b is not None and self.offset is None:
            raise InputError(f"offset of the {self.name} transformation", str(b), "none")
        return Transformation(self, a, (self.offset or 0.0) if b is None else b)

    @property
    def positive_everywhere(self) -> bool:
        """Whether g is positive everywhere, so that the scores may have any value."""
        return self.offset is None


@dataclass(frozen=True)
class Transformation:
    """An increasing, strictly positive function psi of scores.

    Attributes:
      family: has the function g.
      a: slope, above 0; the inverse of a temperature.
      b: offset, if the family has one. All scores must then be above -b / a: below, the loss is not
        defined.
    """

    family: TransformationFamily
    a: float = 1.0
    b: float = 0.0

    def __post_init__(self) -> None:
        if not self.a > 0:
            raise InputError("slope of the transformation", str(self.a), "a number above 0")

    @property
    def name(self) -> str:
        """The name of the family."""
        return self.family.name

    def log(self, scores: jax.Array) -> jax.Array:
        """The logarithm of psi(scores), elementwise; no exponential overflows."""
        return self.family.log(self._scaled(scores))

    def log_of_float(self, score: float) -> float:
        """The logarithm of psi(score), in float64."""
        return self.family.log_of_float(self._scaled(score))

    def __call__(self, scores: jax.Array) -> jax.Array:
        """psi(scores), elementwise."""
        return jnp.exp(self.log(scores))

    def positive_within(self, max_score: float) -> bool:
        """Whether psi is positive for all scores from -max_score to max_score."""
        return self.family.positive_everywhere or self.b > self.a * max_score

    def _scaled(self, scores: Scores) -> Scores:
        scaled = self.a * scores
        return scaled if self.family.offset is None else scaled + self.b


# A spec is pickled with these functions. Functions of JAX are objects that cannot be pickled.
def _log(u: jax.Array) -> jax.Array:
    return jnp.log(u)


def _log_sigmoid(u: jax.Array) -> jax.Array:
    return jax.nn.log_sigmoid(u)


def _log_sigmoid_of_float(u: float) -> float:
    return -math.log1p(math.exp(-u)) if u > -30 else u - math.log1p(math.exp(u))


def _identity(u: Scores) -> Scores:
    return u


def _slope_1(_: float) -> float:
    return 0.0


def _slope_quarter(_: float) -> float:
    return -math.log(4)


exponential = TransformationFamily("exponential", _identity, _identity, log_max_slope=_identity)
"""psi(x) = exp(a x)."""

linear = TransformationFamily(
    "linear", _log, math.log, log_max_slope=_slope_1, offset=2.0, takes_exponentials=False
)
"""psi(x) = a x + b."""

sigmoid = TransformationFamily(
    "sigmoid", _log_sigmoid, _log_sigmoid_of_float, log_max_slope=_slope_quarter
)
"""psi(x) = 1 / (1 + exp(-a x)), steepest at 0."""

TRANSFORMATIONS: dict[str, TransformationFamily] = {
    family.name: family for family in (exponential, linear, sigmoid)
}
"""Name of `--transformation` -> family."""
