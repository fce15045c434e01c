"""The highest of many scores, found by counting instead of sorting.

A threshold that as many scores reach as are wanted is found by halving an interval: each pass
compares and counts, on all cores, where a partial sort keeps one core busy. The comparisons of a
row are packed into words of bits, whose population counts tell how many there are, and later where
each of them lies. For some 66 of 4096 that takes less than half the time of XLA:CPU's top-k, and
for 256 of 800 that need no order a third.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from snm.losses.reductions import MASKED

__all__ = ["MASKED", "Interval", "Mined", "collect", "interval", "mined_weights"]

_BITS = 32  # of a word
_HALVINGS = 64  # more than a float32 interval can take
_LOOKED_AT = 512  # scores of a row that the first guess comes from
_STEP = 0.25  # standard deviations from a guess that missed to the next
_GUESSES = 4  # before the interval is halved


class Interval(NamedTuple):
    """Where the threshold of each row lies.

    Attributes:
      low: float32 [n]; at least as many scores as were wanted are from here on, or all there are.
      high: float32 [n]; at most as many as were wanted are from here on. Equal to `low` but where
        scores that are all the same stand in the way.
    """

    low: jax.Array
    high: jax.Array


class Mined(NamedTuple):
    """Which scores of each row are among its k highest.

    Attributes:
      low: float32 [n]; scores from here on are, or are as high as the k-th.
      high: float32 [n]; scores from here on certainly are.
      share: float32 [n], the weight of scores in between, which are all equal: so much of each
        that the weights add up to k.
    """

    low: jax.Array
    high: jax.Array
    share: jax.Array

    def weights(self, scores: jax.Array) -> jax.Array:
        """1 for mined scores, 0 for others, a share for those that tie for the last places."""
        tied = jnp.where(scores >= self.low[:, None], self.share[:, None], 0)
        return jnp.where(scores >= self.high[:, None], 1.0, tied)


def mined_weights(scores: jax.Array, count: int) -> Mined:
    """Finds the `count` highest of each row by halving; all of them where a row has fewer.

    Args:
      scores: float32 [n, S]; MASKED ones are never among them.
      count: at least 1, below S.
    """
    low, high = interval(scores, count, count)
    certain, possible = _reach(scores, high), _reach(scores, low)
    # Where both are the same, as where a row has fewer, none is in between to take a share.
    share = (count - certain) / jnp.maximum(possible - certain, 1)
    return Mined(low, high, share.astype(jnp.float32))


def interval(scores: jax.Array, fewest: int, most: int) -> Interval:
    """A threshold a row that `fewest` to `most` of its scores reach; all where a row has fewer.

    Args:
      scores: float32 [n, S]; MASKED ones are not counted.
      fewest: at least 1.
      most: at least `fewest`, below S.
    """
    least = jnp.min(jnp.where(scores > MASKED / 2, scores, jnp.inf), axis=1)
    greatest = jnp.max(scores, axis=1)
    # Nothing is from here on; beside 0 the next float may count as 0 itself.
    above = jnp.maximum(jnp.nextafter(greatest, jnp.inf), greatest + 1e-30)
    mean, deviation = _moments(scores[:, :_LOOKED_AT])
    share = math.sqrt(fewest * most) / scores.shape[1]
    first = mean + deviation * NormalDist().inv_cdf(1 - share)

    def is_open(low: jax.Array, high: jax.Array) -> jax.Array:
        middle = 0.5 * (low + high)
        return (low < high) & (middle > low) & (middle < high)

    def narrow(carry: tuple) -> tuple:
        low, high, point, bits, turn = carry
        found = _number(bits)
        # Where so many are wanted, both ends meet and the row is done; where all there are is not
        # more, before it begins.
        low = jnp.where((found >= fewest) | (turn == 0), point, low)
        high = jnp.where(found <= most, point, high)
        # The first guess is as if the scores were normal, and the next are about it: when halving
        # begins the interval is small.
        side = point + jnp.where(found < fewest, -_STEP, _STEP) * deviation
        guess = jnp.where(turn == 0, first, side)
        guessed = (turn < _GUESSES) & (guess > low) & (guess < high)
        point = jnp.where(guessed, guess, 0.5 * (low + high))
        point = jnp.where(is_open(low, high), point, low)
        return low, high, point, _far_bits(scores, point), turn + 1

    def going(carry: tuple) -> jax.Array:
        low, high, _, _, turn = carry
        return (turn < _HALVINGS) & jnp.any(is_open(low, high))

    start = least, above, least, _far_bits(scores, least), jnp.int32(0)
    low, high, *_ = lax.while_loop(going, narrow, start)
    return Interval(low, high)


def _moments(scores: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and standard deviation of each row, of those that are not MASKED."""
    real = scores > MASKED / 2
    count = jnp.maximum(jnp.sum(real, axis=1), 1)
    mean = jnp.sum(jnp.where(real, scores, 0), axis=1) / count
    centred = jnp.where(real, scores - mean[:, None], 0)
    return mean, jnp.sqrt(jnp.sum(centred * centred, axis=1) / count)


def collect(scores: jax.Array, floor: jax.Array, room: int) -> tuple[jax.Array, jax.Array]:
    """The scores of each row that reach its floor, the first `room` of them, in their order.

    Args:
      scores: float32 [n, S]; MASKED ones never reach it.
      floor: float32 [n].
      room: how many to return.

    Returns:
      float32 [n, room], MASKED where fewer reach it, and int32 [n, room], their places.
    """
    bits = math.gcd(scores.shape[1], _BITS)
    passed = _passed(scores, floor).reshape(scores.shape[0], -1, bits)
    words = _packed(passed, axis=2)
    counts = lax.population_count(words).astype(jnp.int32)
    ends = jnp.cumsum(counts, axis=1)

    # In which word the s-th lies: the number of words that end before it, by bisection.
    wanted = jnp.broadcast_to(jnp.arange(room, dtype=jnp.int32), (scores.shape[0], room))
    word = jnp.zeros_like(wanted)
    step = 1 << (words.shape[1] - 1).bit_length()
    while step := step // 2:
        probe = jnp.minimum(word + step, words.shape[1]) - 1
        word = jnp.where(jnp.take_along_axis(ends, probe, axis=1) <= wanted, probe + 1, word)
    real = wanted < ends[:, -1:]
    word = jnp.minimum(word, words.shape[1] - 1)

    # Which bit of its word: the half that holds it, the half of that half, and so on.
    left = wanted - jnp.take_along_axis(ends - counts, word, axis=1)
    rest = jnp.take_along_axis(words, word, axis=1)
    bit = jnp.zeros_like(word)
    while bits := bits // 2:
        low = rest & jnp.uint32((1 << bits) - 1)
        below = lax.population_count(low).astype(jnp.int32)
        later = left >= below
        left = jnp.where(later, left - below, left)
        rest = jnp.where(later, rest >> bits, low)
        bit = jnp.where(later, bit + bits, bit)
    place = jnp.where(real, word * passed.shape[2] + bit, 0)
    found = jnp.take_along_axis(scores, place, axis=1)
    return jnp.where(real, found, MASKED), place


def _reach(scores: jax.Array, point: jax.Array) -> jax.Array:
    """How many scores of each row reach its point: int32 [n]."""
    return _number(_far_bits(scores, point))


def _number(words: jax.Array) -> jax.Array:
    """How many bits are set in the words of each row: int32 [n]."""
    return jnp.sum(lax.population_count(words).astype(jnp.int32), axis=1)


def _far_bits(scores: jax.Array, point: jax.Array) -> jax.Array:
    """Which scores reach their row's point: uint32 [n, S / 32], a word's bits far apart in a row.

    Packing them so is an addition of whole rows of bits, which XLA:CPU does with vectors; the sum
    of the comparisons along a row takes three times as long. Where the words are counted at once,
    that fuses with the packing and spoils it: a loop carries them to its next turn instead.
    """
    bits = math.gcd(scores.shape[1], _BITS)
    return _packed(_passed(scores, point).reshape(scores.shape[0], bits, -1), axis=1)


def _passed(scores: jax.Array, point: jax.Array) -> jax.Array:
    return (scores >= point[:, None]) & (scores > MASKED / 2)


def _packed(passed: jax.Array, axis: int) -> jax.Array:
    """Words whose bits are the entries along one of the last two axes."""
    place = jnp.arange(passed.shape[axis], dtype=jnp.uint32)
    place = place[None, :, None] if axis == 1 else place[None, None, :]
    return jnp.sum(passed.astype(jnp.uint32) << place, axis=axis, dtype=jnp.uint32)
