"""What a sampler is: one object that draws the negatives of every step of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from snm.sampling.sample import Array, Sample

__all__ = ["Sampler", "SamplerInputs"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SamplerInputs:
    """What a sampler is built from, once per run.

    Attributes:
      num_labels: K.
      size: S, slots of a sample: B + 1, one for the positive that a term leaves out.
      seed: the seed of the run, >= 0.
      num_points: training points with a label.
      batch_size: points of a batch.
      label_frequency: int [K], training points that carry each label; None unless the sampler's
        `needs_label_frequency` is True.
      label_draws: float64 [2, K]; for each label, over the training points that carry it, the sum
        and the sum of squares of the probability that a visit takes it as a positive. None unless
        the sampler's `needs_batch_positives` is True.
      options: the values of the settings that the sampler lists in its `option_names`, by name.
    """

    num_labels: int
    size: int
    seed: int
    num_points: int
    batch_size: int
    label_frequency: np.ndarray[Any, Any] | None = None
    label_draws: np.ndarray[Any, Any] | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class Sampler(Protocol):
    """Draws the labels that a batch is scored against.

    Implementations are frozen. A draw is a function of the object, the seed, the step and the
    positives alone. `snm.sampling.samplers.SAMPLERS` holds the classes by name.

    Attributes:
      needs_label_frequency: whether `build` reads `SamplerInputs.label_frequency`.
      needs_batch_positives: whether a draw reads the positives of the whole batch; if False, it
        gets None for them.
      uniform: whether every set of S different labels is as likely as any other. The theorems on
        sampled losses hold for no other draw. False unless a subclass says so.
      with_replacement: whether a label may be drawn again, which fills no second slot. Weights of
        ranks are refused with it. True unless a subclass says otherwise.

    A class that uses a setting of samplers, such as `frequency_power`, lists it in a frozenset
    `option_names`, and `build` finds the value in `SamplerInputs.options`. A run rejects settings
    that its sampler does not list.
    """

    needs_label_frequency: ClassVar[bool]
    needs_batch_positives: ClassVar[bool]
    uniform: ClassVar[bool] = False
    with_replacement: ClassVar[bool] = True

    @classmethod
    def build(cls, inputs: SamplerInputs) -> Sampler:
        """The sampler of a run. May take time in proportion to K, and to the batch size."""
        ...

    def on_host(self, step: int, positives: np.ndarray[Any, Any] | None) -> Sample:
        """Draws with NumPy, in time that does not grow with K.

        Args:
          step: the training step, >= 0.
          positives: int32 [T], positives of the batch, K in places of padding; or None.

        Returns:
          A sample of NumPy arrays. The number of slots depends on the shape of `positives` alone.
        """
        ...

    @property
    def on_device(self) -> Callable[[Array, Array | None, Array], Sample] | None:
        """`on_host` in JAX, traced inside the compiled step; None if the sampler has no such form.

        A run whose training set is on the device draws with it, and no sample is drawn on the host.
        It may use another random stream with the same distribution. The third argument is the seed
        of the run, a uint32 scalar. It is an array, so that ensemble members share the program. A
        draw uses it instead of the sampler's own seed.

        What it draws cannot be checked inside the step: a run checks one draw when it starts, that
        of step 0. `on_host` is checked at every step.

        Compiled programs are cached by this function, which must be hashable. Trainings whose
        samplers have equal functions share a program; bound methods of two objects are never equal.
        """
        ...
