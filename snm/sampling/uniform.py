"""Uniform sampling without replacement, on the host and on a device."""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from snm.errors import InputError
from snm.sampling.permutation import permutation_prefix
from snm.sampling.protocol import SamplerInputs
from snm.sampling.sample import STREAM, Array, Sample, host_rng

__all__ = ["UniformSampler", "uniform_device", "uniform_host"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class UniformSampler:
    """Draws labels uniformly, without replacement: the sampling of Reddi et al. (2019).

    The host and the device draw by the same law from different streams: NumPy's algorithms branch
    on the numbers drawn, which a compiled program of fixed shapes cannot.

    Attributes:
      num_labels: K.
      size: B + 1, from 1 to K.
      seed: the seed of the run, >= 0.
    """

    needs_label_frequency: ClassVar[bool] = False
    needs_batch_positives: ClassVar[bool] = False
    uniform: ClassVar[bool] = True
    with_replacement: ClassVar[bool] = False

    num_labels: int
    size: int
    seed: int

    @classmethod
    def build(cls, inputs: SamplerInputs) -> UniformSampler:
        """The sampler of a run."""
        return cls(num_labels=inputs.num_labels, size=inputs.size, seed=inputs.seed)

    def on_host(self, step: int, positives: np.ndarray[Any, Any] | None = None) -> Sample:
        """`uniform_host`; `positives` is not read."""
        return uniform_host(self.seed, step, num_labels=self.num_labels, size=self.size)

    @property
    def on_device(self) -> UniformDraw:
        """`uniform_device`; equal for all seeds."""
        return UniformDraw(self.num_labels, self.size)


@dataclasses.dataclass(frozen=True)
class UniformDraw:
    """`uniform_device` of some labels.

    Attributes:
      num_labels: K.
      size: B + 1, from 1 to K.
    """

    num_labels: int
    size: int

    def __call__(self, step: Array, positives: Array | None, seed: Array) -> Sample:
        """The draw of a step; `positives` is not read."""
        return uniform_device(seed, step, num_labels=self.num_labels, size=self.size)


def uniform_host(seed: int, step: int, *, num_labels: int, size: int) -> Sample:
    """Draws `size` of `num_labels` labels uniformly, without replacement, with NumPy.

    For B negatives, ask for size = B + 1. Draw B + 1 labels in uniformly random order and leave
    out the positive if it is among them, else the last one: what remains is uniform over the
    B-subsets of the other labels. Only the set and its last member matter, and given the set, the
    last member is uniform in it. So a uniform set and a uniform `drop` slot follow the same law,
    and nothing has to be shuffled.

    The cost is O(size log size) at any number of labels: NumPy switches between Floyd's sampling
    (Bentley and Floyd, 1987) and a partial shuffle, which it uses only where size > K / 20 and K is
    above 10,000.

    Args:
      seed: the seed of the run, >= 0.
      step: the training step, >= 0.
      num_labels: K.
      size: B + 1, from 1 to K; K gives every label.

    Returns:
      A sample with S = `size` NumPy slots, none unused, and no `log_weights`.

    Raises:
      InputError: `size` is not from 1 to K, or the seed or the step is negative or traced.
    """
    _check_size(num_labels, size)
    rng = host_rng(seed, step)
    drop = np.asarray(rng.integers(size), np.int32)
    if size == num_labels:
        return Sample(np.arange(num_labels, dtype=np.int32), drop)
    ids = rng.choice(num_labels, size, replace=False, shuffle=False)
    return Sample(np.sort(ids.astype(np.int32)), drop)


def uniform_device(seed: int | Array, step: int | Array, *, num_labels: int, size: int) -> Sample:
    """Draws `size` of `num_labels` labels uniformly, without replacement, on the device.

    The labels are the images of 0 .. size-1 under a pseudo-random permutation of 0 .. K-1 (see
    `snm.sampling.permutation`). A permutation has no duplicates, so nothing is rejected, and its
    cost depends on `size` alone. Neighbouring inputs land on unrelated places, unlike under an
    affine map i -> (a i + c) mod K, whose gaps between sorted labels take three values only.

    `drop` is the slot of the image of size - 1, the last one drawn (see `uniform_host` for why
    that excludes a positive exactly).

    Args:
      seed: the seed of the run; may be traced.
      step: the training step, int32; may be traced.
      num_labels: K, from 1 to 2^31 - 1; static under `jax.jit`.
      size: B + 1, from 1 to K; static. K gives every label.

    Returns:
      A sample with S = `size` slots, none unused, and no `log_weights`.

    Raises:
      InputError: `size` is not from 1 to K, or K is above 2^31 - 1.
    """
    _check_size(num_labels, size)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), STREAM), step)
    if size == num_labels:
        drop = jax.random.randint(key, (), 0, size, jnp.int32)
        return Sample(jnp.arange(num_labels, dtype=jnp.int32), drop)
    order = permutation_prefix(key, num_labels, size).astype(jnp.int32)
    drop = jnp.sum(order < order[-1], dtype=jnp.int32)
    return Sample(jnp.sort(order), drop)


def _check_size(num_labels: int, size: int) -> None:
    whole = isinstance(size, numbers.Integral) and isinstance(num_labels, numbers.Integral)
    if not whole or not 1 <= size <= num_labels < 2**31:
        found = f"{size!r} of {num_labels!r} labels"
        raise InputError("size", found, "a whole number from 1 to num_labels, which is below 2^31")
