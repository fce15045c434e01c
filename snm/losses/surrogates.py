"""Surrogates phi of the 0/1 loss: non-increasing, and at least 1 wherever the margin is <= 0.

Theorem 2 (convexity) and the factor 2 of Theorem 3 need a convex phi: all but the ramp. Each
function maps an array of margins, elementwise, to an array of the same shape and dtype, and is
differentiable by JAX. At a kink its gradient is one of the subgradients.

A surrogate of your own may have any values, at large margins too: masked labels are removed before
phi is applied. The theorems hold only if it has the properties of the first line.

References:
  Reddi et al. (2019), section 3.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from snm.errors import InputError
from snm.system.numbers import exp_or_inf

__all__ = [
    "SURROGATES",
    "Phi",
    "PhiConstants",
    "Surrogate",
    "check_surrogate",
    "exponential",
    "hinge",
    "logistic",
    "ramp",
    "squared_hinge",
]

Surrogate = Callable[[jax.Array], jax.Array]


def hinge(margin: jax.Array) -> jax.Array:
    """Hinge loss, phi(u) = max(1 - u, 0).

    Args:
      margin: [...], float.

    Returns:
      [...], in the dtype of the margins.

    Example:
      >>> float(hinge(jnp.array(0.25)))
      0.75
    """
    return jnp.maximum(1 - margin, 0)


def logistic(margin: jax.Array) -> jax.Array:
    """Logistic loss in base 2, phi(u) = log2(1 + exp(-u)); with base e phi(0) would be below 1.

    Args:
      margin: [...], float; no value overflows.

    Returns:
      [...], in the dtype of the margins.

    Example:
      >>> float(logistic(jnp.array(0.0)))
      1.0
    """
    return jax.nn.softplus(-margin) / math.log(2)


def squared_hinge(margin: jax.Array) -> jax.Array:
    """Squared hinge loss, phi(u) = max(1 - u, 0)^2.

    Args:
      margin: [...], float; in float16 a margin below -254 overflows (losses compute in float32).

    Returns:
      [...], in the dtype of the margins.

    Example:
      >>> float(squared_hinge(jnp.array(-1.0)))
      4.0
    """
    return jnp.square(jnp.maximum(1 - margin, 0))


def exponential(margin: jax.Array) -> jax.Array:
    """Exponential loss, phi(u) = exp(-u).

    Args:
      margin: [...], float; below about -88 in float32 the value is infinite.

    Returns:
      [...], in the dtype of the margins.

    Example:
      >>> float(exponential(jnp.array(0.0)))
      1.0
    """
    return jnp.exp(-margin)


def ramp(margin: jax.Array, *, rho: float = 1.0) -> jax.Array:
    """Ramp loss, phi(u) = I(u <= 0) + (1 - u / rho) I(0 < u <= rho): bounded, not convex.

    Args:
      margin: [...], float.
      rho: The margin from which the loss is 0, above 0; set it with `functools.partial`.

    Returns:
      [...], in the dtype of the margins.

    Example:
      >>> float(ramp(jnp.array(0.5), rho=2.0))
      0.75
    """
    return jnp.clip(1 - margin / rho, 0, 1)


def _ramp(margin: jax.Array, *, ramp_rho: float = 1.0) -> jax.Array:
    return ramp(margin, rho=ramp_rho)


@dataclasses.dataclass(frozen=True)
class PhiConstants:
    """Constants of a surrogate phi on [lowest, inf), for its Lipschitz condition and its range.

    Each function also takes the options that the `Phi` names, by keyword.

    Attributes:
      slope: lowest -> the Lipschitz constant.
      largest: lowest -> the largest value, which is phi(lowest): phi does not increase.
      slope_anywhere: () -> the Lipschitz constant on the whole line; None if the slope is
        unbounded.
    """

    slope: Callable[..., float]
    largest: Callable[..., float]
    slope_anywhere: Callable[..., float] | None = None


@dataclasses.dataclass(frozen=True)
class Phi:
    """A surrogate of `SURROGATES`; call it with margins.

    Attributes:
      function: (margins, options by keyword) -> values; a `Surrogate` if there are no options.
      option_names: the fields of `LossOptions` that it takes; a run rejects those of others.
      constants: what Theorem 5 needs of phi; `snm bounds` skips that theorem if it is None.
    """

    function: Callable[..., jax.Array]
    option_names: frozenset[str] = frozenset()
    constants: PhiConstants | None = None

    def __call__(self, margin: jax.Array) -> jax.Array:
        """phi(margin), elementwise, with the default options."""
        return self.function(margin)

    def options_in(self, options: object) -> dict[str, Any]:
        """The options that phi takes, from the attributes of a `LossOptions`."""
        return {name: getattr(options, name) for name in sorted(self.option_names)}

    def configured(self, options: object) -> Surrogate:
        """Phi as a function of margins alone, with the options of a `LossOptions`.

        Equal and hashable by the function and its options, so that compiled programs are reused.
        """
        values = self.options_in(options)
        return _WithOptions(self.function, tuple(values.items())) if values else self.function


@dataclasses.dataclass(frozen=True)
class _WithOptions:
    function: Callable[..., jax.Array]
    options: tuple[tuple[str, Any], ...]

    def __call__(self, margin: jax.Array) -> jax.Array:
        return self.function(margin, **dict(self.options))


SURROGATES: dict[str, Phi] = {
    "hinge": Phi(
        hinge,
        constants=PhiConstants(
            slope=lambda _: 1.0,
            largest=lambda lowest: max(1 - lowest, 0.0),
            slope_anywhere=lambda: 1.0,
        ),
    ),
    "logistic": Phi(
        logistic,
        constants=PhiConstants(
            # The slope at u is sigmoid(-u) / ln 2, largest at the lowest argument.
            slope=lambda lowest: 1 / (1 + exp_or_inf(lowest)) / math.log(2),
            largest=lambda lowest: float(np.logaddexp(0, -lowest)) / math.log(2),
            slope_anywhere=lambda: 1 / math.log(2),
        ),
    ),
    "squared_hinge": Phi(
        squared_hinge,
        constants=PhiConstants(
            slope=lambda lowest: 2 * max(1 - lowest, 0.0),
            largest=lambda lowest: max(1 - lowest, 0.0) ** 2,
        ),
    ),
    "exponential": Phi(
        exponential,
        constants=PhiConstants(
            slope=lambda lowest: exp_or_inf(-lowest),
            largest=lambda lowest: exp_or_inf(-lowest),
        ),
    ),
    "ramp": Phi(
        _ramp,
        option_names=frozenset({"ramp_rho"}),
        constants=PhiConstants(
            slope=lambda _, ramp_rho: 1 / ramp_rho,
            largest=lambda lowest, ramp_rho: min(max(1 - lowest / ramp_rho, 0.0), 1.0),
            slope_anywhere=lambda ramp_rho: 1 / ramp_rho,
        ),
    ),
}
"""Name of `--phi` -> surrogate."""


def check_surrogate(phi: object) -> None:
    """Raises `InputError` if a surrogate is no function, such as a name of `SURROGATES`."""
    if not callable(phi):
        known = "surrogates.SURROGATES[name]" if isinstance(phi, str) else "surrogates.hinge"
        raise InputError("phi", f"{phi!r}"[:80], f"a function of margins, such as {known}")
