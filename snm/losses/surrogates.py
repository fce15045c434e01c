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

import jax
import jax.numpy as jnp

from snm.errors import InputError

__all__ = [
    "SURROGATES",
    "Surrogate",
    "check_surrogate",
    "exponential",
    "hinge",
    "logistic",
    "ramp",
    "squared_hinge",
    "surrogate",
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


SURROGATES: dict[str, Surrogate] = {
    "hinge": hinge,
    "logistic": logistic,
    "squared_hinge": squared_hinge,
    "exponential": exponential,
    "ramp": ramp,
}
"""Name of `--phi` -> surrogate."""


def check_surrogate(phi: object) -> None:
    """Raises `InputError` if a surrogate is no function, such as a name of `SURROGATES`."""
    if not callable(phi):
        known = "surrogates.SURROGATES[name]" if isinstance(phi, str) else "surrogates.hinge"
        raise InputError("phi", f"{phi!r}"[:80], f"a function of margins, such as {known}")


def surrogate(name: str, ramp_rho: float = 1.0) -> Surrogate:
    """The surrogate with this name. Only the ramp reads `ramp_rho`, its margin."""
    phi = SURROGATES[name]
    return _Ramp(ramp_rho) if phi is ramp else phi


@dataclasses.dataclass(frozen=True)
class _Ramp:
    """The ramp with margin rho. Equal and hashable by rho, so that compiled programs are reused."""

    rho: float

    def __call__(self, margin: jax.Array) -> jax.Array:
        return ramp(margin, rho=self.rho)
