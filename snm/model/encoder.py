"""The two-layer encoder: sparse features -> a query of unit length.

The first layer is an embedding table with one row a feature; `embedding_bag` sums the rows of a
point. It is updated row by row, outside flax. The dense tower after it is a small flax module:

    relu      x -> W1 -> ReLU -> linear -> unit length       (Reddi et al., 2019, section 5)
    linear    x -> W1 -> unit length
    residual  x -> W1 -> h + linear(ReLU(h)) -> unit length; starts as the linear encoder
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from snm.tables.table import normalize

__all__ = ["ENCODERS", "Encoder", "Tower", "apply_tower", "init_tower"]


@dataclasses.dataclass(frozen=True)
class Encoder:
    """What a tower computes of h, the sum of a point's feature rows.

    Attributes:
      has_layer: whether there is a linear layer of ReLU(h).
      adds_sums: whether h is added to it; the layer then starts at zero, so that training starts
        as a linear model.
      formula: the query before it gets unit length, in NumPy, with `tower` the layer's matrix.
    """

    has_layer: bool
    adds_sums: bool
    formula: str


ENCODERS = {
    "relu": Encoder(has_layer=True, adds_sums=False, formula="relu(h) @ tower"),
    "linear": Encoder(has_layer=False, adds_sums=True, formula="h"),
    "residual": Encoder(has_layer=True, adds_sums=True, formula="h + relu(h) @ tower"),
}
"""Name -> encoder: the choices of the setting `encoder`."""


class Tower(nnx.Module):
    """Maps sums of feature rows [n, dim] to queries [n, dim] of unit length."""

    def __init__(self, dim: int, kind: str, compute_dtype: str, rngs: nnx.Rngs):
        if kind not in ENCODERS:
            raise ValueError(f"encoder must be one of {', '.join(ENCODERS)}; found {kind!r}")
        self.encoder = ENCODERS[kind]
        if self.encoder.has_layer:
            at_zero = self.encoder.adds_sums
            init = nnx.initializers.zeros if at_zero else nnx.initializers.lecun_normal()
            self.linear = nnx.Linear(
                dim,
                dim,
                use_bias=False,
                kernel_init=init,
                dtype=jnp.dtype(compute_dtype),
                param_dtype=jnp.float32,
                rngs=rngs,
            )

    def __call__(self, sums: jax.Array) -> jax.Array:
        """Queries float32 [n, dim]; an example without features, or with dead units, gets zeros."""
        return normalize(self.unscaled(sums))

    def unscaled(self, sums: jax.Array) -> jax.Array:
        """Queries before they get unit length, float32 [n, dim].

        They are J s for sums s, where J is the derivative at s: no layer has a bias.
        """
        if not self.encoder.has_layer:
            return sums
        hidden = self.linear(jax.nn.relu(sums)).astype(jnp.float32)
        return sums + hidden if self.encoder.adds_sums else hidden


def init_tower(
    dim: int, kind: str, compute_dtype: str, key: jax.Array
) -> tuple[nnx.GraphDef[Tower], dict[str, Any]]:
    """The tower's structure (static) and its parameters (nested dictionaries of arrays)."""
    structure, params = nnx.split(Tower(dim, kind, compute_dtype, nnx.Rngs(key)))
    return structure, nnx.to_pure_dict(params)


def apply_tower(
    structure: nnx.GraphDef[Tower], params: dict[str, Any], sums: jax.Array
) -> jax.Array:
    """Runs a tower on parameters from `init_tower`; differentiable in them and in `sums`."""
    return nnx.merge(structure, nnx.State(params))(sums)
