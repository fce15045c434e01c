"""The memory traffic and operations of the kernel of `snm.topk`, which XLA does not know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from snm.targets.module import Instruction

__all__ = ["kernel_work"]

_NAME = re.compile(r"product_top_k_([a-z0-9]+)_(\d+)_blocks")


class KernelWork(NamedTuple):
    """The costs of a call of the kernel.

    Attributes:
      moved: bytes; each block of queries reads all rows.
      operations: multiplications and additions.
      factors: the type of the factors, as in `snm.targets.account.Account`.
    """

    moved: float
    operations: int
    factors: str


def kernel_work(instruction: Instruction, operands: Sequence[Instruction]) -> KernelWork | None:
    """The costs of an instruction that calls the kernel, by its name; None for others.

    Args:
      instruction: the instruction.
      operands: queries [n, dim], rows [S, dim], and further operands.
    """
    if instruction.opcode != "custom-call":
        return None
    named = _NAME.search(instruction.name)
    if named is None:
        return None
    queries, rows = operands[:2]
    (count, dim), num_slots = queries.shapes[0].dims, rows.shapes[0].dims[0]
    moved = (
        instruction.size
        + sum(operand.size for operand in operands)
        + rows.size * (int(named[2]) - 1)
    )
    return KernelWork(moved, 2 * count * num_slots * dim, named[1])
