"""Chooses how a step of the head is computed, from the sizes and the loss, before it is traced.

Negatives are mined by partial sorting, by a threshold, or not at all. Rows are updated pair by pair
or by matrix products. All variants give the same loss and step; `plan_step` chooses the fastest.
"""

from __future__ import annotations

import dataclasses
import enum

from snm.head.spec import HeadSpec
from snm.losses.sampled.protocol import DenseForm
from snm.machine.platform import for_platform

__all__ = ["MAX_HELD_SCORES", "PAIRS_LIMIT", "Mining", "StepPlan", "pairs_are_cheaper", "plan_step"]

PAIRS_LIMIT = {"cpu": 64, "gpu": 64, "tpu": 160}
"""By platform: rows are updated by matrix products if k' times this number is above B.

A pair moves three rows of memory. A column of the gradient matrix costs two rows of multiply-adds
per point, and a CPU does about 64 of these in the same time. The number for TPUs comes from the
bytes that a step compiled for v5e moves at k' 256 of 32,768, not from a timing. On an H200, a step
by pairs takes 0.69 of the time of one by products at k' 512 of 32,768, and 0.89 at 64 of 4,096,
which is at the limit (`benchmarks/results/gpu-forms.json`).
"""
MAX_HELD_SCORES = 1 << 23
"""Scores that a step may hold at once, 32 MiB. Timed on a CPU: with more, the cost of fresh memory
pages exceeds that of a sort. On accelerators it limits the temporaries: at most 150 MiB in compiled
steps."""
_THRESHOLD_MIN_MINED = 32
"""The smallest k' for mining by a threshold. Timed on a CPU: below, a partial sort by blocks is as
fast, and orders ties. On accelerators a kernel does that, which keeps the top few on the chip."""
_MASK_OWN_MIN_MINED = {"cpu": 64, "gpu": 1}
"""By platform: the smallest k' at which a term's excluded slot is masked before mining.

For a smaller k', one more negative is mined in order, and the excluded one is dropped later. For a
large k' this is slower, because sorting takes longer than finding the top k' (timed on CPUs). On
GPUs, XLA has a top-k kernel for up to 16 and sorts for 17. On TPUs it has one for both, and a mask
would keep the scores of a step from staying on the chip (compiled for v5e).
"""


class Mining(enum.Enum):
    """How a step finds the negatives that enter its loss.

    Attributes:
      BY_ORDER: a partial sort: blocks of scores are merged into the top k' of each point.
      BY_THRESHOLD: a threshold per point separates the k' highest scores, which are not sorted.
      WHOLE_LISTS: nothing is mined; all sampled negatives enter the list of their point.
      NONE: nothing is mined; all sampled negatives enter the dense form of the loss.
    """

    BY_ORDER = enum.auto()
    BY_THRESHOLD = enum.auto()
    WHOLE_LISTS = enum.auto()
    NONE = enum.auto()


@dataclasses.dataclass(frozen=True)
class StepPlan:
    """How a step finds its negatives, and how it updates the class rows.

    Attributes:
      mining: how the negatives are found. With BY_THRESHOLD and WHOLE_LISTS, the gradient of the
        scores is a matrix over all slots; otherwise it has an entry for each mined pair.
      count: for BY_ORDER, how many are mined for each point: k', or k' + 1 if the excluded slot of
        a term may be among them.
      sorted: for BY_ORDER, whether they are sorted, hardest first.
      masks_own: for BY_ORDER with one term per point, whether its excluded slot is masked before
        mining.
      dense: the part of the loss in which all sampled negatives have the same weight, computed
        while the rows are updated; None if there is none, or if the mining step includes it.
      by_pairs: whether rows are updated pair by pair, and not by matrix products.
    """

    mining: Mining
    count: int
    sorted: bool
    masks_own: bool
    dense: DenseForm | None
    by_pairs: bool


def plan_step(spec: HeadSpec, num_points: int, num_slots: int, *, single_device: bool) -> StepPlan:
    """Chooses how a step is computed.

    Args:
      spec: settings of the head.
      num_points: n, the size of the batch.
      num_slots: S, the number of sampled labels including the surplus one, or K.
      single_device: whether this device holds all class rows and all points.
    """
    loss = spec.head_loss
    if single_device and _uses_whole_lists(spec):
        mining = Mining.WHOLE_LISTS
    elif single_device and _uses_threshold(spec, num_points, num_slots):
        mining = Mining.BY_THRESHOLD
    else:
        mining = Mining.NONE if loss.uses_all_negatives else Mining.BY_ORDER
    # A gradient that is a matrix over all slots includes the dense part, and leaves no pairs.
    separate_dense = mining in (Mining.BY_ORDER, Mining.NONE)
    excludes_own = not spec.excludes_known
    masks_own = (
        excludes_own and spec.one_positive and spec.mined >= for_platform(_MASK_OWN_MIN_MINED)
    )
    extra = excludes_own and not masks_own
    # If a term's excluded slot is not among the k' + 1 mined, the term drops the last of them (see
    # `gradients._is_negative`; rank weights end before it). It must be the easiest, hence sorted.
    return StepPlan(
        mining,
        count=min(spec.mined + extra, num_slots),
        sorted=extra or loss.needs_sorted,
        masks_own=masks_own,
        dense=loss.dense if separate_dense else None,
        by_pairs=separate_dense and loss.dense is None and pairs_are_cheaper(spec.mined, num_slots),
    )


def pairs_are_cheaper(mined: int, num_slots: int) -> bool:
    """Whether updates pair by pair move less memory than matrix products."""
    return mined * for_platform(PAIRS_LIMIT) <= num_slots


def _uses_whole_lists(spec: HeadSpec) -> bool:
    loss = spec.head_loss
    return loss.scores_per_point and not loss.needs_sorted and loss.dense is None and spec.mines_all


def _uses_threshold(spec: HeadSpec, num_points: int, num_slots: int) -> bool:
    """Whether to mine by a threshold.

    The loss must have this form, all scores must fit into memory, and many or all negatives must be
    mined. If a point has several terms, they must have the same mined negatives.
    """
    form = spec.head_loss.threshold
    if form is None:
        return False
    shared = spec.excludes_known and form.per_point
    many = spec.mines_all or (
        _THRESHOLD_MIN_MINED <= spec.mined < num_slots
        and not pairs_are_cheaper(spec.mined, num_slots)
    )
    fits = num_points * num_slots <= MAX_HELD_SCORES
    return fits and many and (shared or spec.one_positive)
