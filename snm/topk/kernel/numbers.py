"""What the forms of the kernel share: sizes, factors of the product, scores of excluded slots.

In a kernel an excluded slot has the lowest finite score, and -inf is no slot at all: the first
slots of a query enter its best whatever their scores are, as `lax.top_k` has it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from snm.topk.blocks import Best

__all__ = [
    "LANES",
    "LOWEST",
    "VMEM",
    "Tiles",
    "factors_of",
    "finished",
    "kept_of",
    "name_of",
    "precision_of",
]

LOWEST = float(np.finfo(np.float32).min)
LANES = 128
"""Numbers of a row of a TPU's registers."""
VMEM = 32 << 20
"""Bytes of a TPU's on-chip memory that the kernel may take."""

_FEWEST = 16  # best of a query in the registers of a GPU


class Tiles(NamedTuple):
    """Sizes of what a kernel holds at once.

    Attributes:
      queries: of a block.
      slots: whose scores are computed together.
      searched: slots that are searched together, on a TPU; elsewhere all of a tile are.
      parts: of the sample, searched side by side; 1 on a TPU, whose cores have one program each.
      depth: numbers of a row that a GPU multiplies at once; 0 on a TPU, which takes whole rows.
      warps: of a program of a GPU.
    """

    queries: int
    slots: int
    searched: int = 0
    parts: int = 1
    depth: int = 0
    warps: int = 0


def kept_of(count: int) -> int:
    """How many of the best a GPU's program holds: the next power of two."""
    return max(_FEWEST, 1 << (count - 1).bit_length())


def factors_of(rows: jax.Array, dtype: jnp.dtype) -> jax.Array:
    """Rows in the storage type, or bfloat16, as factors of a product."""
    if rows.dtype == jnp.uint16:
        rows = lax.bitcast_convert_type(rows, jnp.bfloat16)
    return rows.astype(dtype)


_ASKED = {
    None: lax.Precision.DEFAULT,
    "default": lax.Precision.DEFAULT,
    "fastest": lax.Precision.DEFAULT,
    "bfloat16": lax.Precision.DEFAULT,
    "high": lax.Precision.HIGH,
    "bfloat16_3x": lax.Precision.HIGH,
    "tensorfloat32": lax.Precision.HIGH,
}


def precision_of(dtype: jnp.dtype, known: tuple[lax.Precision, ...]) -> lax.Precision:
    """The precision of a product of such factors: what jax is asked for, or more.

    Args:
      dtype: of the factors.
      known: what a compiler of kernels has besides the default and the highest.
    """
    if dtype != jnp.float32:
        return lax.Precision.DEFAULT
    asked = _ASKED.get(_asked_for(), lax.Precision.HIGHEST)
    return asked if asked in (*known, lax.Precision.DEFAULT) else lax.Precision.HIGHEST


def name_of(dtype: jnp.dtype, precision: lax.Precision, blocks: int) -> str:
    """The name of a kernel, from which `snm.targets.kernels` counts what it does.

    Args:
      dtype: of the factors.
      precision: of their product.
      blocks: of queries; each reads all rows.
    """
    kinds = {lax.Precision.HIGHEST: "float32", lax.Precision.HIGH: "tensorfloat32"}
    kind = kinds.get(precision, "default") if dtype == jnp.float32 else jnp.dtype(dtype).name
    return f"product_top_k_{kind}_{blocks}_blocks"


def _asked_for() -> str | None:
    return jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]


def finished(scores: jax.Array, slots: jax.Array) -> Best:
    """Scores as they are returned: -inf for what is excluded."""
    return Best(jnp.where(scores > LOWEST, scores, -jnp.inf), slots)
