"""Dispatches: the steps that the device runs between two exchanges with the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from snm.batches.sources.on_device import DeviceSource
from snm.batches.sources.source import Source

__all__ = ["dispatch_length", "split_into_dispatches"]


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
    periods: Iterable[int],
    stage_starts: Sequence[int],
    part_steps: int = 0,
) -> Iterator[tuple[int, int]]:
    """Splits steps first to last - 1 into dispatches of at most `max_steps` steps.

    A dispatch ends at the end of an epoch, at a multiple of each of the `periods` that is not 0,
    before each of the `stage_starts`, the first steps of stages, and, unless `part_steps` is 0,
    after each `part_steps` steps of an epoch.

    Yields:
      The first step of each dispatch, and its number of steps.
    """
    periods = [source.steps_per_epoch, *(period for period in periods if period)]
    while first < last:
        next_multiples = [(first // period + 1) * period for period in periods]
        next_stages = [start for start in stage_starts if start > first]
        end = min([last, first + max_steps, *next_multiples, *next_stages])
        if part_steps:
            end = min(end, first + part_steps - first % source.steps_per_epoch % part_steps)
        yield first, end - first
        first = end


def _equal_length(steps: int, max_steps: int) -> int:
    """The length of the fewest equal dispatches that cover `steps`."""
    dispatches = -(-steps // min(max_steps, steps))
    return -(-steps // dispatches)


def _computed(steps: int, length: int) -> int:
    """The number of steps computed for `steps` in whole dispatches, padding included."""
    return -(-steps // length) * length
