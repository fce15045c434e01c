"""What a compiled step must not have: whole tables made anew, long sorts, float64, callbacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snm.targets.account import update_in_place
from snm.targets.module import Instruction, Module

__all__ = ["faults"]

_PASSED_ON = {"parameter", "get-tuple-element", "tuple", "while", "conditional", "bitcast", "call",
              "opt-barrier"}  # fmt: skip
_TO_HOST = {"infeed", "outfeed", "send", "recv"}


def faults(module: Module, tables: Sequence[tuple[int, ...]], longest_sort: int) -> list[str]:
    """What is wrong with a program, one line each; empty if nothing is.

    Args:
      module: the program.
      tables: the shapes of the tables that it updates in place or reads rows of.
      longest_sort: the most keys that one sort may order.
    """
    return [
        *_tables_made(module, set(tables)),
        *_sorts(module, longest_sort),
        *(f"float64: {one.name}" for one in module.all() if _has_float64(one)),
        *(f"waits for the host: {one.name}" for one in module.all() if _calls_host(one)),
    ]


def _tables_made(module: Module, tables: set[tuple[int, ...]]) -> Iterator[str]:
    """Instructions whose result has a table's shape, but no update in place of it."""
    inside = {one.called("calls") for one in module.all() if one.opcode == "fusion"}
    for name in module.computations:
        if name in inside:  # what a fusion makes on the way is never written
            continue
        here = module.within(name)
        for one in here.values():
            shapes = [shape for shape in one.shapes if shape.dims in tables]
            if not shapes or one.opcode in _PASSED_ON or one.opcode.endswith("-done"):
                continue
            if update_in_place(module, here, one) is None:
                kinds = ", ".join(f"{shape.dtype}{list(shape.dims)}" for shape in shapes)
                yield f"a whole table made by {one.opcode}: {one.name} {kinds}"


def _sorts(module: Module, longest: int) -> Iterator[str]:
    for one in module.all():
        if one.opcode == "sort" and len(one.shapes) > 1:
            keys = max(shape.dims[-1] for shape in one.shapes)
            rows = one.shapes[0].dims[:-1]
            if keys > longest and rows:  # of a matrix of scores; that of the drawn ids is a vector
                yield f"sorts {keys} scores of each row: {one.name}"


def _has_float64(one: Instruction) -> bool:
    return any(shape.dtype in ("f64", "c128") for shape in one.shapes)


def _calls_host(one: Instruction) -> bool:
    return one.opcode in _TO_HOST or "callback" in one.target.lower()
