"""A keyed permutation of 0 .. K-1 whose values cost the same at any K: labels without replacement.

A Feistel network permutes a power of two whatever its round functions are, since each round can
be undone (Luby and Rackoff, 1988); cycle walking restricts it to 0 .. K-1 (Black and Rogaway,
2002). Everything is uint32.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

__all__ = ["permuted"]


def permuted(key: jax.Array, num_labels: int, size: int) -> jax.Array:
    """The images of 0 .. size-1 under a pseudo-random permutation of 0 .. K-1.

    Args:
      key: a PRNG key, consumed: it picks the permutation.
      num_labels: K, from 1 to 2^31 - 1; static.
      size: from 1 to K; static.

    Returns:
      uint32 [size], distinct values below K, in the order drawn.
    """
    bits = max((num_labels - 1).bit_length(), 1)
    round_keys = jax.random.bits(key, (_num_rounds(bits),), jnp.uint32)
    limit = jnp.uint32(num_labels)

    def outside(x: jax.Array) -> jax.Array:
        return jnp.any(x >= limit)

    def walk(x: jax.Array) -> jax.Array:
        return jnp.where(x < limit, x, _feistel(x, round_keys, bits))

    first = _feistel(jnp.arange(size, dtype=jnp.uint32), round_keys, bits)
    return jax.lax.while_loop(outside, walk, first)


def _num_rounds(bits: int) -> int:
    """Rounds of the network: on a small domain each round mixes less, and costs nothing."""
    return 8 if bits > 16 else 32


def _feistel(x: jax.Array, round_keys: jax.Array, bits: int) -> jax.Array:
    """A keyed permutation of 0 .. 2^bits - 1: the halves take turns to be masked by the other.

    The halves may differ by one bit (Lucks, 1996), so the domain is less than twice K and a walk
    takes two tries at most on average.
    """
    low_bits = bits // 2
    high_bits = bits - low_bits
    low_mask, high_mask = jnp.uint32(2**low_bits - 1), jnp.uint32(2**high_bits - 1)
    low, high = x & low_mask, x >> low_bits
    for i in range(round_keys.shape[0]):
        if i % 2:
            low ^= _mix(high + round_keys[i]) & low_mask
        else:
            high ^= _mix(low + round_keys[i]) & high_mask
    return (high << low_bits) | low


def _mix(x: jax.Array) -> jax.Array:
    """Scrambles uint32 so that each input bit flips each output bit about half of the time.

    The finaliser of MurmurHash3 (Appleby, 2011, public domain).
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
