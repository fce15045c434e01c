"""A keyed permutation of 0 .. K-1, to draw labels without replacement at a cost independent of K.

It is a generalized Feistel network (Black and Rogaway, 2002). Write i as the pair (i // b, i mod b)
on an a x b grid; in each round, one half is shifted by a keyed hash of the other. Every round is
invertible, so the network permutes the grid for any hash. If K < a * b, values of K and above are
permuted again until they fall below K (cycle walking). The grid is nearly square and at most a - 1
cells larger than K, so that for large K hardly any value has to walk. A grid of 2^n cells would
send up to half of the values around, and all of them would wait for the slowest.

An accelerator does not walk: a loop that ends when no value is outside 0 .. K-1 makes a GPU wait
for the host at each iteration. Pointer doubling finds where the walk from each outside cell ends.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from snm.machine.platform import by_platform

__all__ = ["permutation_prefix"]

# uint32 [size] each: the two coordinates of a value on the grid.
_Halves = tuple[jax.Array, jax.Array]


def permutation_prefix(key: jax.Array, num_labels: int, size: int) -> jax.Array:
    """The images of 0 .. size-1 under a pseudo-random permutation of 0 .. K-1.

    Args:
      key: a PRNG key, consumed: it picks the permutation.
      num_labels: K, from 1 to 2^31 - 1; static under `jax.jit`.
      size: from 1 to K; static.

    Returns:
      uint32 [size], distinct values below K, in the order drawn.
    """
    high_range = math.isqrt(num_labels - 1) + 1 if num_labels > 1 else 1
    low_range = -(-num_labels // high_range)
    round_keys = jax.random.bits(key, (_num_rounds(num_labels) // 2, 2), jnp.uint32)

    # Two rounds an iteration: unrolled further, XLA:CPU computes shared terms again and again.
    def two_rounds(halves: _Halves, keys: jax.Array) -> tuple[_Halves, None]:
        high, low = halves
        high = _shift_modulo(high, _hash(low + keys[0]), high_range)
        low = _shift_modulo(low, _hash(high + keys[1]), low_range)
        return (high, low), None

    def cell_number(halves: _Halves) -> jax.Array:
        return halves[0] * jnp.uint32(low_range) + halves[1]

    def permute_grid(halves: _Halves) -> _Halves:
        return lax.scan(two_rounds, halves, round_keys)[0]

    def cells(first: int, count: int) -> _Halves:
        numbers = first + jnp.arange(count, dtype=jnp.uint32)
        return numbers // low_range, numbers % low_range

    def by_cycle_walking() -> jax.Array:
        def walk(state: tuple[_Halves, jax.Array]) -> tuple[_Halves, jax.Array]:
            (high, low), outside = state
            next_high, next_low = permute_grid((high, low))
            halves = jnp.where(outside, next_high, high), jnp.where(outside, next_low, low)
            return halves, cell_number(halves) >= num_labels

        first = cells(0, size), jnp.ones(size, bool)
        halves, _ = lax.while_loop(lambda state: jnp.any(state[1]), walk, first)
        return cell_number(halves)

    def by_pointer_doubling() -> jax.Array:
        images = cell_number(permute_grid(cells(0, size)))
        outside = high_range * low_range - num_labels
        if not outside:
            return images

        # A walk from a label visits each cell outside at most once. Those that only cells outside
        # lead to may go around for ever, but no label comes to them.
        def follow(values: jax.Array, ends: jax.Array) -> jax.Array:
            inside = values < num_labels
            return jnp.where(inside, values, ends[jnp.where(inside, 0, values - num_labels)])

        ends = cell_number(permute_grid(cells(num_labels, outside)))
        turns = (outside - 1).bit_length()
        ends = lax.fori_loop(0, turns, lambda _, ends: follow(ends, ends), ends)
        return follow(images, ends)

    return by_platform(cpu=by_cycle_walking, default=by_pointer_doubling)


def _num_rounds(num_labels: int) -> int:
    """An even number. On a small grid a round has few shifts to choose from, so more are needed.

    Chi-square tests of ordered pairs to quadruples over 200,000 keys reject 8 rounds for K from 5
    to 9 and accept 32 everywhere; at large K, 6 are enough for the gaps between labels.
    """
    return 32 if num_labels <= 1024 else 8


def _shift_modulo(half: jax.Array, noise: jax.Array, limit: int) -> jax.Array:
    """(half + floor(noise * limit / 2^32)) mod limit, in 32 bits, for limit < 2^16."""
    upper = (noise >> 16) * jnp.uint32(limit)
    lower = (noise & jnp.uint32(0xFFFF)) * jnp.uint32(limit)
    total = half + ((upper + (lower >> 16)) >> 16)
    # Below the limit the difference wraps around to a huge value.
    return jnp.minimum(total, total - jnp.uint32(limit))


def _hash(x: jax.Array) -> jax.Array:
    """Scrambles uint32 so that each input bit flips each output bit about half of the time.

    The finalizer of MurmurHash3 (Appleby, 2011, public domain).
    """
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
