"""What the kernel of `snm.topk` moves and computes: its text tells XLA neither."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from snm.targets.module import Instruction

__all__ = ["KernelWork", "kernel_work"]

_NAME = re.compile(r"product_top_k_([a-z0-9]+)_(\d+)_blocks")


class KernelWork(NamedTuple):
    """A call of the kernel.

    Attributes:
      moved: bytes; each block of queries reads all rows.
      operations: multiplications and additions.
      factors: what they are rounded to, as in `snm.targets.account.Account`.
    """

    moved: float
    operations: int
    factors: str


def kernel_work(one: Instruction, operands: Sequence[Instruction]) -> KernelWork | None:
    """The work of an instruction that calls the kernel, by its name; None for another.

    Args:
      one: the instruction.
      operands: queries [n, dim], rows [S, dim], and what goes with them.
    """
    if one.opcode != "custom-call":
        return None
    named = _NAME.search(one.name)
    if named is None:
        return None
    queries, rows = operands[:2]
    (count, dim), num_slots = queries.shapes[0].dims, rows.shapes[0].dims[0]
    moved = one.size + sum(operand.size for operand in operands) + rows.size * (int(named[2]) - 1)
    return KernelWork(moved, 2 * count * num_slots * dim, named[1])
