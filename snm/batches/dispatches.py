"""How many steps the device runs between two exchanges with the host."""

from __future__ import annotations

from collections.abc import Iterable

from snm.batches.sources.on_device import DeviceSource
from snm.batches.sources.source import Source

__all__ = ["steps_of_dispatch"]


def steps_of_dispatch(source: Source, most: int, marks: Iterable[int] = ()) -> int:
    """Steps of each dispatch, at most `most`.

    A dispatch ends at the end of an epoch and at a mark. Where the device has the points, the steps
    between two ends are cut into equal dispatches, of which `Source.stack` fills up the last: one
    program serves all. Where it has room for the points of another phase, their program is taken if
    at most a sixth more steps are computed so.

    Args:
      source: the batches.
      most: at least 1.
      marks: steps between two stops of a kind, such as checkpoints; 0 is none.
    """

    def between_ends(epoch: int) -> int:
        return min([epoch, *(mark for mark in marks if mark)])

    steps = between_ends(source.steps_per_epoch)
    if not isinstance(source, DeviceSource):
        return min(most, steps)
    own = _equal_length(steps, most)
    if source.room is None:
        return own
    shared = _equal_length(between_ends(-(-source.room[0] // source.batch_size)), most)
    cheap = 6 * _computed(steps, shared) <= 7 * _computed(steps, own)
    return shared if cheap else own


def _equal_length(steps: int, most: int) -> int:
    """Of the fewest dispatches that `steps` can be cut into, as equal as they can be."""
    dispatches = -(-steps // min(most, steps))
    return -(-steps // dispatches)


def _computed(steps: int, length: int) -> int:
    """Steps that the device computes for `steps` of them, in whole dispatches."""
    return -(-steps // length) * length
