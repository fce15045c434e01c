"""What a step of the head does, from the sizes and the loss alone: before anything is traced.

Negatives are mined by order, by a threshold, or not at all; rows are updated pair by pair or by
matrix products. All ways give the same loss and step. `plan_step` takes the one that costs least.
"""

from __future__ import annotations

import dataclasses
import enum

from snm.head.spec import HeadSpec
from snm.losses.sampled.protocol import DenseForm
from snm.machine.platform import of_platform

__all__ = ["HELD_SCORES", "PAIRS_LIMIT", "Mining", "StepPlan", "few_pairs", "plan_step"]

PAIRS_LIMIT = {"cpu": 64, "gpu": 64, "tpu": 160}
"""By platform: matrix products replace pairs where k' times this is above B.

A pair moves three rows of memory, and a column of the gradient matrix costs two rows of
multiply-adds a point, of which a CPU does about 64 in the same time. The number for TPU comes from
the bytes that a step compiled for v5e moves at k' 256 of 32,768, not from a timing. On an H200 a
step by pairs takes 0.69 of the time of one by products at k' 512 of 32,768, and 0.89 at 64 of
4,096, where the limit is (`benchmarks/results/gpu-forms.json`).
"""
HELD_SCORES = 1 << 23
"""Scores of all slots that a step may hold at once, 32 MiB. On a CPU timed: above that fresh pages
cost more than a sort. On others a bound of the temporaries, of which compiled steps hold at most
150 MiB."""
_FEWEST_BY_THRESHOLD = 32
"""Mined, at least, where a threshold finds them. On a CPU timed: blocks that keep the best are as
fast for fewer, and give ties an order. Others have a kernel for that, which keeps the best of few
on the chip."""
_MASKED_FROM = {"cpu": 64, "gpu": 1}
"""By platform: from how many mined on, a slot that a term leaves out is masked before mining.

Where they are few, one more is mined and left out later; to order many takes longer than to find
them (timed on CPUs). XLA:GPU has a top-k kernel for at most 16, and sorts for 17. XLA:TPU has one
for both, and the mask would keep the scores of a step from staying on the chip (compiled for v5e).
"""


class Mining(enum.Enum):
    """How a step finds the negatives that enter its loss.

    Attributes:
      BY_ORDER: the best of each point are kept while blocks of scores are merged.
      BY_THRESHOLD: a threshold tells which of all scores are among the k' best; in no order.
      WHOLE_LISTS: nothing is mined; every sampled negative enters the list of its point.
      NONE: nothing is mined; every sampled negative enters the dense form of the loss.
    """

    BY_ORDER = enum.auto()
    BY_THRESHOLD = enum.auto()
    WHOLE_LISTS = enum.auto()
    NONE = enum.auto()


@dataclasses.dataclass(frozen=True)
class StepPlan:
    """How a step finds its negatives, and how it updates the class rows.

    Attributes:
      mining: how the negatives are found. By threshold and of whole lists, the gradient of the
        scores is a matrix of all slots; otherwise there is one for each mined pair.
      count: by order, how many are kept for each point: k', or k' + 1 where the slot that a term
        leaves out may be among them.
      sorted: by order, whether they come hardest first.
      masks_own: by order, whether the slot that a point's one term leaves out is masked before.
      dense: the part of the loss that all sampled negatives enter with one weight, which is added
        while the rows are updated; None where there is none, or `mining` has it already.
      by_pairs: whether each (point, label) pair updates a row; otherwise matrix products do.
    """

    mining: Mining
    count: int
    sorted: bool
    masks_own: bool
    dense: DenseForm | None
    by_pairs: bool


def plan_step(spec: HeadSpec, num_points: int, num_slots: int, *, alone: bool) -> StepPlan:
    """Chooses how a step is computed.

    Args:
      spec: of the head.
      num_points: n, of the batch.
      num_slots: S, the sampled labels with the surplus one, or all.
      alone: whether this device holds all class rows and all points.
    """
    loss = spec.head_loss
    if alone and _takes_whole_lists(spec):
        mining = Mining.WHOLE_LISTS
    elif alone and _finds_threshold(spec, num_points, num_slots):
        mining = Mining.BY_THRESHOLD
    else:
        mining = Mining.NONE if loss.uses_all_negatives else Mining.BY_ORDER
    # Where the gradient of all scores is one matrix, it has the dense part, and no pairs are left.
    in_parts = mining in (Mining.BY_ORDER, Mining.NONE)
    own = not spec.excludes_known
    masks_own = own and spec.one_positive and spec.mined >= of_platform(_MASKED_FROM)
    spare = own and not masks_own
    # A term that leaves out none of its k' + 1 mined drops the last one (`gradients._negatives`
    # counts along the row; weights of ranks end before it). It must be the easiest: so in order.
    return StepPlan(
        mining,
        count=min(spec.mined + spare, num_slots),
        sorted=spare or loss.needs_sorted,
        masks_own=masks_own,
        dense=loss.dense if in_parts else None,
        by_pairs=in_parts and loss.dense is None and few_pairs(spec.mined, num_slots),
    )


def few_pairs(mined: int, num_slots: int) -> bool:
    """Whether one row update a mined pair moves less memory than matrix products."""
    return mined * of_platform(PAIRS_LIMIT) <= num_slots


def _takes_whole_lists(spec: HeadSpec) -> bool:
    loss = spec.head_loss
    return loss.scores_per_point and not loss.needs_sorted and loss.dense is None and spec.mines_all


def _finds_threshold(spec: HeadSpec, num_points: int, num_slots: int) -> bool:
    """Whether the loss allows it, the scores are few enough to hold, and many are mined, or all.

    The terms of a point must be able to share what is mined for it.
    """
    form = spec.head_loss.threshold
    if form is None:
        return False
    shared = spec.excludes_known and form.per_point
    many = spec.mines_all or (
        _FEWEST_BY_THRESHOLD <= spec.mined < num_slots and not few_pairs(spec.mined, num_slots)
    )
    fits = num_points * num_slots <= HELD_SCORES
    return fits and many and (shared or spec.one_positive)
