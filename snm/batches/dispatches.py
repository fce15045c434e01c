"""Dispatches: the steps that the device runs between two exchanges with the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from snm.batches.sources.on_device import DeviceSource
from snm.batches.sources.source import Source

__all__ = ["LAST_STEP", "SaveTimes", "dispatch_length", "split_into_dispatches"]


class SaveTimes(NamedTuple):
    """The steps after which a run saves a checkpoint: those below, and the last.

    Attributes:
      every: steps between checkpoints, counted from the start of the run; 0 for none.
      within_epoch: steps between checkpoints within an epoch, counted from its start; 0 for none.
        The last part of an epoch is shorter.
    """

    every: int
    within_epoch: int = 0

    @property
    def first(self) -> int:
        """The step of the first checkpoint, if the run is so long; 0 is the last step."""
        return self.within_epoch or self.every

    def is_due(self, step: int, steps_per_epoch: int, last: int) -> bool:
        """Whether the run saves after `step` steps; `last` is the last step."""
        within = self.within_epoch > 0 and step % steps_per_epoch % self.within_epoch == 0
        return step == last or within or (self.every > 0 and step % self.every == 0)


LAST_STEP = SaveTimes(0)
"""A run that saves after its last step alone."""


def dispatch_length(source: Source, max_steps: int, periods: Iterable[int] = ()) -> int:
    """Steps of each dispatch, at most `max_steps`.

    A dispatch ends at the end of an epoch and of a period. If the points are on the device, the
    steps between two ends are cut into equal dispatches, and `Source.stack` pads the last one, so
    that all share one program. If the arrays have capacity for the points of another phase, the
    program of that phase is used, provided that it computes at most a sixth more steps.

    Args:
      source: the batches.
      max_steps: at least 1.
      periods: in steps, at whose ends a dispatch must end, such as for checkpoints; 0 for none.
    """
    lengths = [period for period in periods if period]
    steps = min([source.steps_per_epoch, *lengths])
    if not isinstance(source, DeviceSource):
        return min(max_steps, steps)
    length = _equal_length(steps, max_steps)
    if source.capacity is None:
        return length
    epoch = -(-source.capacity.points // source.batch_size)  # of the other phase, in steps
    shared = _equal_length(min([epoch, *lengths]), max_steps)
    cheap = 6 * _computed(steps, shared) <= 7 * _computed(steps, length)
    return shared if cheap else length


def split_into_dispatches(
    source: Source,
    first: int,
    last: int,
    max_steps: int,
    *,
    saves: SaveTimes = LAST_STEP,
    periods: Iterable[int] = (),
    stage_starts: Iterable[int] = (),
) -> Iterator[tuple[int, int]]:
    """Splits steps first to last - 1 into dispatches of at most `max_steps` steps.

    A dispatch ends at the end of an epoch, where a checkpoint is due, at a multiple of each of the
    `periods` that is not 0, and before each of the `stage_starts`, the first steps of stages.

    Yields:
      The first step of each dispatch, and its number of steps.
    """
    every, within_epoch = saves
    periods = [source.steps_per_epoch, *(period for period in (every, *periods) if period)]
    stage_starts = list(stage_starts)
    while first < last:
        next_multiples = [(first // period + 1) * period for period in periods]
        next_stages = [start for start in stage_starts if start > first]
        end = min([last, first + max_steps, *next_multiples, *next_stages])
        if within_epoch:
            end = min(end, first + within_epoch - first % source.steps_per_epoch % within_epoch)
        yield first, end - first
        first = end


def _equal_length(steps: int, max_steps: int) -> int:
    """The length of the fewest equal dispatches that cover `steps`."""
    dispatches = -(-steps // min(max_steps, steps))
    return -(-steps // dispatches)


def _computed(steps: int, length: int) -> int:
    """The number of steps computed for `steps` in whole dispatches, padding included."""
    return -(-steps // length) * length
