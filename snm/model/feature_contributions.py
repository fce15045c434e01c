"""Feature contributions: a score as an exact sum over the features of a point.

A score without the bias is the sum over members of c <q, w>: a multiplier c, the class row w, and
the query q = u / |u|, where u is what the tower makes of the sum s of the feature rows. No layer of
a tower has a bias, so u = J s with its derivative J at s. With the length |u| and the active units
as they are for this point,

    score = sum over features f of x_f <e_f, J^T w> c / |u|

with the feature rows e_f and the weighted values x_f. This holds exactly, up to rounding; of other
networks, gradient times input is an approximation.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from snm.head.spec import in_precision
from snm.model.model import Model, TrainState
from snm.tables.bag import embedding_bag
from snm.tables.rounding import as_float
from snm.tables.table import SparseRows, entry_rows, unit_factors

__all__ = ["feature_contributions"]


@in_precision
def feature_contributions(
    model: Model, state: TrainState, features: SparseRows, labels: jax.Array
) -> jax.Array:
    """The contribution of each feature of a point to the scores of some labels of the point.

    Args:
      model: the description.
      state: the parameters, on one device.
      features: of n points, weighted.
      labels: int32 [n, k], labels of each point.

    Returns:
      float32 [k, entries]: the contribution of each entry of `features`, in their order, to the
      score of the point's label; 0 for padding.
    """
    rows = as_float(state.head.table.rows[labels])
    sums = embedding_bag(state.features.rows, features)
    multipliers = jnp.exp(jnp.atleast_1d(state.head.log_scale))
    directions = []
    for member in range(model.members):
        tower, columns = state.tower, slice(member * model.dim, (member + 1) * model.dim)
        if model.members > 1:
            tower = jax.tree.map(lambda leaf, m=member: leaf[m], tower)
        unscaled, vjp = jax.vjp(
            nnx.merge(model.structure, nnx.State(tower)).unscaled, sums[:, columns]
        )
        factors = multipliers[member] * unit_factors(unscaled)
        (direction,) = jax.vmap(vjp, in_axes=1, out_axes=1)(
            rows[:, :, columns] * factors[:, None, :]
        )
        directions.append(direction)
    points, entries = entry_rows(features), as_float(state.features.rows[features.ids])

    def for_one_label(direction: jax.Array) -> jax.Array:
        """For one label per point, so that k labels do not take k times the memory."""
        return features.values * jnp.einsum("ed,ed->e", entries, direction[points])

    return lax.map(for_one_label, jnp.moveaxis(jnp.concatenate(directions, axis=-1), 1, 0))
