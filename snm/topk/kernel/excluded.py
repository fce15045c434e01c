"""The excluded (query, slot) pairs as bits, packed into words of 32."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from snm.topk.blocks import Masked

__all__ = ["BITS", "excluded_bits", "num_words"]

BITS = 32


def num_words(num_slots: int, tile: int) -> int:
    """Words per query, for slots in tiles of this size, a multiple of 32."""
    return -(-num_slots // tile) * (tile // BITS)


def excluded_bits(masked: Masked, num_queries: int, num_slots: int, tile: int) -> jax.Array:
    """Sets the bit of each pair.

    A tile of slots has tile / 32 words. Bit i of its word w is slot i * tile / 32 + w of the tile:
    shifted by i, the words of a tile are neighbouring slots, in one vector of a TPU.

    Args:
      masked: the pairs, repeated or not; those out of range are left out.
      num_queries: n.
      num_slots: S.
      tile: slots of a tile, a multiple of 32.

    Returns:
      int32 [words, n].
    """
    rows, slots = lax.sort((masked.rows, masked.slots), num_keys=2)
    # A pair that occurs twice must not add its bit twice.
    repeated = (rows[1:] == rows[:-1]) & (slots[1:] == slots[:-1])
    real = (slots >= 0) & (slots < num_slots) & ~jnp.pad(repeated, (1, 0))
    words = tile // BITS
    place = slots % tile
    word = slots // tile * words + place % words
    bit = jnp.int32(1) << (place // words)
    zeros = jnp.zeros((num_words(num_slots, tile), num_queries), jnp.int32)
    word = jnp.where(real, word, zeros.shape[0])
    return zeros.at[word, rows].add(bit, mode="drop")
