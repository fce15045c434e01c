"""Finds faults of a compiled step: copies of whole tables, long sorts, float64, callbacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snm.targets.account import update_in_place
from snm.targets.module import Instruction, Module

__all__ = ["faults"]

_PASSED_ON = {"parameter", "get-tuple-element", "tuple", "while", "conditional", "bitcast", "call",
              "opt-barrier"}  # fmt: skip
_TO_HOST = {"infeed", "outfeed", "send", "recv"}


def faults(module: Module, tables: Sequence[tuple[int, ...]], longest_sort: int) -> list[str]:
    """The faults of a program, one line each.

    Args:
      module: the program.
      tables: the shapes of the tables that it updates in place or reads rows of.
      longest_sort: the most keys that one sort may order.
    """
    return [
        *_table_copies(module, set(tables)),
        *_sorts(module, longest_sort),
        *(
            f"float64: {instruction.name}"
            for instruction in module.all()
            if _has_float64(instruction)
        ),
        *(
            f"waits for the host: {instruction.name}"
            for instruction in module.all()
            if _calls_host(instruction)
        ),
    ]


def _table_copies(module: Module, tables: set[tuple[int, ...]]) -> Iterator[str]:
    """Instructions whose result has the shape of a table but is no update in place."""
    inside = {
        instruction.called("calls")
        for instruction in module.all()
        if instruction.opcode == "fusion"
    }
    for name in module.computations:
        if name in inside:  # intermediate results of a fusion are never written
            continue
        siblings = module.within(name)
        for instruction in siblings.values():
            shapes = [shape for shape in instruction.shapes if shape.dims in tables]
            if (
                not shapes
                or instruction.opcode in _PASSED_ON
                or instruction.opcode.endswith("-done")
            ):
                continue
            if update_in_place(module, siblings, instruction) is None:
                kinds = ", ".join(f"{shape.dtype}{list(shape.dims)}" for shape in shapes)
                yield f"a whole table made by {instruction.opcode}: {instruction.name} {kinds}"


def _sorts(module: Module, longest: int) -> Iterator[str]:
    for instruction in module.all():
        if instruction.opcode == "sort" and len(instruction.shapes) > 1:
            keys = max(shape.dims[-1] for shape in instruction.shapes)
            rows = instruction.shapes[0].dims[:-1]
            if keys > longest and rows:  # scores are a matrix; sampled ids are a vector
                yield f"sorts {keys} scores of each row: {instruction.name}"


def _has_float64(instruction: Instruction) -> bool:
    return any(shape.dtype in ("f64", "c128") for shape in instruction.shapes)


def _calls_host(instruction: Instruction) -> bool:
    return instruction.opcode in _TO_HOST or "callback" in instruction.target.lower()
