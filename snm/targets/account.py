"""Counts the memory traffic and the operations of a compiled program from its text.

Traffic is between a device and its main memory; on-chip memory does not count. For gathers and
updates in place, only the accessed rows of a table count. XLA's own `cost_analysis` charges a
scatter for the whole table, and has no numbers for GPUs.

A loop is multiplied by its trip count if the text has it, otherwise by that of the caller. Of a
conditional the cheapest branch counts, because the others are fallbacks.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterator

from snm.targets.kernels import kernel_work
from snm.targets.module import Instruction, Module, Shape

__all__ = ["Account", "Exchange", "account", "update_in_place"]

_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "copy-done",
         "partition-id", "replica-id", "opt-barrier", "all-reduce-done", "all-gather-done",
         "collective-permute-done", "async-done", "async-update", "slice-done", "iota"}  # fmt: skip
_FREE_CALLS = {"AllocateBuffer", "ConcatBitcast", "AssumeGatherIndicesInBound"}
_COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_IN_PLACE = {"scatter", "dynamic-update-slice"}
_LIBRARY = "__cublas$"
"""The prefix of the call target of a GPU library's product: the first result is the product, the
second one workspace memory."""


@dataclasses.dataclass(frozen=True)
class Exchange:
    """A collective operation of a compiled program.

    Attributes:
      kind: name of the HLO operation.
      group: number of devices in a group.
      size: bytes of its result on a device.
    """

    kind: str
    group: int
    size: int

    @property
    def sent(self) -> float:
        """Bytes that a device sends, with a ring algorithm."""
        if self.kind == "reduce-scatter":  # the result is the device's part of the sum
            return self.size * (self.group - 1.0)
        if self.kind == "collective-permute":  # each sends all of it to one other
            return float(self.size)
        share = (self.group - 1) / self.group
        return self.size * share * (2 if self.kind == "all-reduce" else 1)


@dataclasses.dataclass
class Account:
    """The costs of a program, including all iterations of its loops.

    Attributes:
      moved: bytes between the device and its main memory.
      operations: multiplications and additions of matrix products, by the type of their factors:
        bfloat16, tensorfloat32, float32, or default.
      exchanges: collectives, repeated for every execution.
      instructions: executed instructions outside of fusions; on a GPU about the number of kernel
        launches.
      unknown_loops: loops whose trip count the text does not have.
      cycles: XLA:TPU's own estimate, without gathers, scatters and top-k; 0 on a GPU.
    """

    moved: float = 0.0
    operations: Counter[str] = dataclasses.field(default_factory=Counter)
    exchanges: list[Exchange] = dataclasses.field(default_factory=list)
    instructions: int = 0
    unknown_loops: int = 0
    cycles: float = 0.0

    def add(self, other: Account, times: int = 1) -> None:
        """Adds the costs of another program, executed `times` times."""
        self.moved += times * other.moved
        for dtype, count in other.operations.items():
            self.operations[dtype] += times * count
        self.exchanges += other.exchanges * times
        self.instructions += times * other.instructions
        self.cycles += times * other.cycles
        self.unknown_loops += other.unknown_loops

    @property
    def sent(self) -> float:
        """Bytes that a device sends to others."""
        return sum(exchange.sent for exchange in self.exchanges)


def account(module: Module, default_trips: int = 1) -> Account:
    """Counts what a program moves, computes and exchanges.

    Args:
      module: the program.
      default_trips: the trip count of loops whose text does not have it.
    """
    return _account_computation(module, module.entry, default_trips)


def _account_computation(module: Module, name: str, default_trips: int) -> Account:
    total, siblings = Account(), module.within(name)
    for instruction in siblings.values():
        if instruction.opcode == "while":
            trips = module.trips(instruction)
            total.unknown_loops += trips is None
            body = _account_computation(module, instruction.called("body"), default_trips)
            total.add(body, default_trips if trips is None else trips)
        elif instruction.opcode == "conditional":
            branches = [
                _account_computation(module, branch, default_trips)
                for branch in instruction.branches
            ]
            total.add(min(branches, key=lambda branch: branch.moved))
        elif instruction.opcode == "call":
            total.add(_account_computation(module, instruction.called("to_apply"), default_trips))
        else:
            total.moved += _moved(module, siblings, instruction)
            total.instructions += not _is_free(instruction)
            cycles = re.search(r'"estimated_cycles":"(\d+)"', instruction.rest)
            total.cycles += int(cycles[1]) if cycles else 0
            _count_operations(module, siblings, instruction, total.operations)
            total.exchanges += _exchanges(module, instruction)
    return total


def _is_free(instruction: Instruction) -> bool:
    """Whether an instruction does no work, such as renaming a value."""
    return instruction.opcode in _FREE or instruction.target in _FREE_CALLS


def _operands(instruction: Instruction, siblings: dict[str, Instruction]) -> list[Instruction]:
    """The instructions whose results it takes."""
    return [siblings[name] for name in instruction.operands if name in siblings]


def _moved(module: Module, siblings: dict[str, Instruction], instruction: Instruction) -> float:
    """Bytes that an instruction outside of fusions reads and writes."""
    if _is_free(instruction):
        return 0.0
    operands = _operands(instruction, siblings)
    if work := kernel_work(instruction, operands):
        return work.moved
    if instruction.opcode == "fusion":
        body = instruction.called("calls")
        read = sum(
            min(operand.size, _bytes_read(module, body, index))
            for index, operand in enumerate(operands)
            if operand.size
        )
        return read + _bytes_written(module, body, instruction)
    if instruction.opcode == "copy-start":  # to, from, and a word of synchronization
        return sum(shape.size for shape in instruction.shapes[:2] if not shape.on_chip)
    if instruction.opcode == "slice-start":  # from an array, to a part of it
        source, part = instruction.shapes[:2]
        return part.size * ((not source.on_chip) + (not part.on_chip))
    if instruction.opcode in ("gather", "dynamic-slice", "slice"):
        read = min(operands[0].size, sum(shape.size for shape in instruction.shapes))
        return read + instruction.size + sum(operand.size for operand in operands[1:])
    if instruction.opcode in _IN_PLACE:
        rest = sum(operand.size for operand in operands[1:])
        # Entries of the table are read and written; none of a table on the chip, whose size is 0.
        return rest + 2 * min(operands[0].size, _update_bytes(instruction, siblings))
    results = (
        instruction.shapes[:1] if instruction.target.startswith(_LIBRARY) else instruction.shapes
    )
    moved = sum(shape.size for shape in results if not shape.on_chip)
    return moved + sum(operand.size for operand in operands)


def _update_bytes(instruction: Instruction, siblings: dict[str, Instruction]) -> int:
    """Bytes of the entries that a scatter or an update of a slice writes."""
    update = siblings[
        instruction.operands[1 if instruction.opcode == "dynamic-update-slice" else -1]
    ]
    return sum(shape.size for shape in update.shapes)


def _users(module: Module, body: str, name: str) -> list[tuple[Instruction, int]]:
    """The instructions of a fusion that use a value, through those that only rename it."""
    users: list[tuple[Instruction, int]] = []
    for instruction in module.computations[body]:
        for index, operand in enumerate(instruction.operands):
            if operand != name:
                continue
            if instruction.opcode == "bitcast":
                users += _users(module, body, instruction.name)
            else:
                users.append((instruction, index))
    return users


def _bytes_read(module: Module, body: str, index: int) -> float:
    """Bytes that a fusion reads of an operand: all, or only the accessed rows."""
    parameter = next(
        instruction
        for instruction in module.computations[body]
        if instruction.opcode == "parameter" and instruction.arguments == str(index)
    )
    siblings, read = module.within(body), 0.0
    for user, position in _users(module, body, parameter.name):
        if position == 0 and user.opcode in ("gather", "dynamic-slice", "slice"):
            read += sum(shape.size for shape in user.shapes)
        elif position == 0 and user.opcode in _IN_PLACE:
            read += _update_bytes(user, siblings)
        elif user.opcode == "fusion":
            read += _bytes_read(module, user.called("calls"), position)
        elif user.opcode != "tuple":
            return math.inf
    return read


def _bytes_written(module: Module, body: str, instruction: Instruction) -> float:
    """Bytes that a fusion writes: its result, or only the updated rows."""
    siblings = module.within(body)
    root = next(inner for inner in siblings.values() if inner.root)
    results = [siblings[name] for name in root.operands] if root.opcode == "tuple" else [root]
    written = 0.0
    for result, shape in zip(results, instruction.shapes, strict=False):
        if not shape.on_chip:
            update = update_in_place(module, siblings, result)
            written += shape.size if update is None else min(shape.size, _update_bytes(*update))
    return written


def update_in_place(
    module: Module, siblings: dict[str, Instruction], instruction: Instruction
) -> tuple[Instruction, dict[str, Instruction]] | None:
    """The scatter or slice update behind a result, also inside fusions, and its siblings."""
    while instruction.opcode == "bitcast":
        instruction = siblings[instruction.operands[0]]
    if instruction.opcode in _IN_PLACE:
        return instruction, siblings
    if instruction.opcode == "fusion":
        inner = module.within(instruction.called("calls"))
        return update_in_place(module, inner, next(x for x in inner.values() if x.root))
    return None


def _exchanges(module: Module, instruction: Instruction) -> Iterator[Exchange]:
    """The collectives of an instruction, also inside fusions.

    XLA:TPU splits a collective that overlaps other work into fusions: the first one starts it, each
    of the others has a part, and the last one ends it. All refer to it, but it is sent once.
    """
    if instruction.opcode not in ("fusion", "async-start"):
        if exchange := _exchange(instruction):
            yield exchange
        return
    inner = module.computations[instruction.called("calls")]
    starts = (part for part in inner if part.target == "AsyncCollectiveStart")
    started = {name for start in starts for name in start.operands}
    for part in inner:
        if "chain_id=" not in part.rest or part.name in started:
            yield from _exchanges(module, part)


def _exchange(instruction: Instruction) -> Exchange | None:
    kind = instruction.opcode.removesuffix("-start")
    if kind not in _COLLECTIVES:
        return None
    groups = re.search(r"replica_groups=(?:\{\{([\d,]+)\}|\[\d+,(\d+)\])", instruction.rest)
    group = 1 if groups is None else len(groups[1].split(",")) if groups[1] else int(groups[2])
    if kind == "collective-permute":  # it has pairs instead of groups
        group = 2
    # The result of the start of an asynchronous gather includes the operand; that of a permutation
    # also includes two words of context.
    shapes = instruction.shapes
    if instruction.opcode.endswith("-start") and kind != "all-reduce":
        if kind == "collective-permute":
            shapes = tuple(shape for shape in shapes if shape.dims)
        shapes = shapes[len(shapes) // 2 :]
    size = sum(shape.size for shape in shapes)
    return Exchange(kind, group, size) if group > 1 else None


# -- operations ------------------------------------------------------------------------------------


def _count_operations(
    module: Module, siblings: dict[str, Instruction], instruction: Instruction, into: Counter[str]
) -> None:
    if instruction.opcode == "fusion":
        inner = module.within(instruction.called("calls"))
        for inner_instruction in inner.values():
            _count_operations(module, inner, inner_instruction, into)
        return
    if work := kernel_work(instruction, _operands(instruction, siblings)):
        into[work.factors] += work.operations
        return
    contracted = _contracted(instruction, siblings)
    if contracted is not None:
        into[_precision(instruction, siblings)] += (
            2 * math.prod(instruction.shapes[0].dims) * contracted
        )


def _precision(instruction: Instruction, siblings: dict[str, Instruction]) -> str:
    """The type to which a matrix product rounds its factors; `default` if it is not specified."""
    dtype = siblings[instruction.operands[0]].shapes[0].dtype
    if dtype != "f32":
        return {"bf16": "bfloat16"}.get(dtype, dtype)
    requested = re.search(r'operand_precision(?:=\{|":\[")(\w+)', instruction.rest)
    known = {"highest": "float32", "high": "tensorfloat32"}
    return known.get(requested[1].lower() if requested else "", "default")


def _contracted(instruction: Instruction, siblings: dict[str, Instruction]) -> int | None:
    """The length of the sums of a matrix product; None if the instruction is none."""
    is_product = instruction.opcode in ("dot", "convolution") or instruction.target.startswith(
        _LIBRARY
    )
    if not is_product or instruction.operands[0] not in siblings:
        return None
    left: Shape = siblings[instruction.operands[0]].shapes[0]
    if instruction.opcode == "convolution":  # a TPU's products
        labels = re.search(r"dim_labels=(\w+)_", instruction.rest)
        return None if labels is None else left.dims[labels[1].index("f")]
    dims = re.search(r'lhs_contracting_dim(?:ension)?s"?[=:][\[{]"?([\d,"]*)', instruction.rest)
    if dims is None:
        return None
    axes = [int(axis) for axis in dims[1].replace('"', "").split(",") if axis]
    return math.prod(left.dims[axis] for axis in axes)
