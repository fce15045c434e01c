"""What a compiled program moves and computes, counted from its text.

Bytes are those between a device and its main memory. Of a table that is gathered from, or updated
in place, only the rows that are touched count; what stays on the chip does not. XLA's own
`cost_analysis` charges a scatter for the whole table, and has no numbers for GPUs.

A loop counts as often as its text tells; where it does not, as often as the caller says. Of a
conditional the cheaper branch counts: the other ones are fall-backs.
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
"""How the target of a GPU library's product begins: its first result is the product, the second one
memory to work with."""


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
    """What a program does, all its loops included.

    Attributes:
      moved: bytes between the device and its main memory.
      operations: multiplications and additions of matrix products, by what their factors are
        rounded to: bfloat16, tensorfloat32, float32, or default.
      exchanges: collectives, each as often as it runs.
      instructions: those outside of fusions that do something, each as often as it runs: on a GPU
        about the kernels that are started.
      unknown_loops: loops whose number of turns the text does not tell.
      cycles: XLA:TPU's own estimate, which has none for gathers, scatters and top-k; 0 on a GPU.
    """

    moved: float = 0.0
    operations: Counter[str] = dataclasses.field(default_factory=Counter)
    exchanges: list[Exchange] = dataclasses.field(default_factory=list)
    instructions: int = 0
    unknown_loops: int = 0
    cycles: float = 0.0

    def add(self, other: Account, times: int = 1) -> None:
        """Adds another program, run so many times."""
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
        return sum(one.sent for one in self.exchanges)


def account(module: Module, turns: int = 1) -> Account:
    """Counts what a program moves, computes and exchanges.

    Args:
      module: the program.
      turns: how often a loop runs whose text does not tell.
    """
    return _of(module, module.entry, turns)


def _of(module: Module, name: str, turns: int) -> Account:
    found, here = Account(), module.within(name)
    for one in here.values():
        if one.opcode == "while":
            trips = module.trips(one)
            found.unknown_loops += trips is None
            body = _of(module, one.called("body"), turns)
            found.add(body, turns if trips is None else trips)
        elif one.opcode == "conditional":
            branches = [_of(module, branch, turns) for branch in one.branches]
            found.add(min(branches, key=lambda branch: branch.moved))
        elif one.opcode == "call":
            found.add(_of(module, one.called("to_apply"), turns))
        else:
            found.moved += _moved(module, here, one)
            found.instructions += not _is_free(one)
            cycles = re.search(r'"estimated_cycles":"(\d+)"', one.rest)
            found.cycles += int(cycles[1]) if cycles else 0
            _count_operations(module, here, one, found.operations)
            found.exchanges += _exchanges(module, one)
    return found


def _is_free(one: Instruction) -> bool:
    """Whether an instruction only names or passes on what is there."""
    return one.opcode in _FREE or one.target in _FREE_CALLS


def _moved(module: Module, here: dict[str, Instruction], one: Instruction) -> float:
    """Bytes that an instruction outside of fusions reads and writes."""
    if _is_free(one):
        return 0.0
    operands = [here[name] for name in one.operands if name in here]
    if work := kernel_work(one, operands):
        return work.moved
    if one.opcode == "fusion":
        body = one.called("calls")
        read = sum(
            min(operand.size, _read_of(module, body, place))
            for place, operand in enumerate(operands)
            if operand.size
        )
        return read + _written(module, body, one)
    if one.opcode == "copy-start":  # to, from, and a word of synchronisation
        return sum(shape.size for shape in one.shapes[:2] if not shape.on_chip)
    if one.opcode == "slice-start":  # from an array, to a part of it
        source, part = one.shapes[:2]
        return part.size * ((not source.on_chip) + (not part.on_chip))
    if one.opcode in ("gather", "dynamic-slice", "slice"):
        read = min(operands[0].size, sum(shape.size for shape in one.shapes))
        return read + one.size + sum(operand.size for operand in operands[1:])
    if one.opcode in _IN_PLACE:
        rest = sum(operand.size for operand in operands[1:])
        return rest + _updated(operands[0].size, _update(one, here))
    results = one.shapes[:1] if one.target.startswith(_LIBRARY) else one.shapes
    moved = sum(shape.size for shape in results if not shape.on_chip)
    return moved + sum(operand.size for operand in operands)


def _update(one: Instruction, here: dict[str, Instruction]) -> int:
    """Bytes of the entries that a scatter or an update of a slice writes."""
    update = here[one.operands[1 if one.opcode == "dynamic-update-slice" else -1]]
    return sum(shape.size for shape in update.shapes)


def _updated(table: int, update: int) -> float:
    """Entries of a table in main memory are read and written; one on the chip costs nothing."""
    return 2 * min(table, update) if table else 0


def _users(module: Module, body: str, name: str) -> list[tuple[Instruction, int]]:
    """The instructions of a fusion that use a value, through those that only rename it."""
    found: list[tuple[Instruction, int]] = []
    for one in module.computations[body]:
        for place, operand in enumerate(one.operands):
            if operand != name:
                continue
            if one.opcode == "bitcast":
                found += _users(module, body, one.name)
            else:
                found.append((one, place))
    return found


def _read_of(module: Module, body: str, place: int) -> float:
    """Bytes of a fusion's operand that it reads: all, or the rows that it touches."""
    parameter = next(
        one
        for one in module.computations[body]
        if one.opcode == "parameter" and one.arguments == str(place)
    )
    here, read = module.within(body), 0.0
    for user, position in _users(module, body, parameter.name):
        if position == 0 and user.opcode in ("gather", "dynamic-slice", "slice"):
            read += sum(shape.size for shape in user.shapes)
        elif position == 0 and user.opcode in _IN_PLACE:
            read += _update(user, here)
        elif user.opcode == "fusion":
            read += _read_of(module, user.called("calls"), position)
        elif user.opcode != "tuple":
            return math.inf
    return read


def _written(module: Module, body: str, one: Instruction) -> float:
    """Bytes that a fusion writes: its result, or the rows of it that it updates."""
    here = module.within(body)
    root = next(inner for inner in here.values() if inner.root)
    results = [here[name] for name in root.operands] if root.opcode == "tuple" else [root]
    written = 0.0
    for result, shape in zip(results, one.shapes, strict=False):
        updated = _in_place(module, here, result)
        if not shape.on_chip:
            written += shape.size if updated is None else min(shape.size, updated)
    return written


def _in_place(module: Module, here: dict[str, Instruction], one: Instruction) -> int | None:
    """Bytes of the update that an instruction of a fusion is; None if it is no update in place."""
    found = update_in_place(module, here, one)
    return None if found is None else _update(*found)


def update_in_place(
    module: Module, here: dict[str, Instruction], one: Instruction
) -> tuple[Instruction, dict[str, Instruction]] | None:
    """The scatter or update of a slice that makes a result, maybe in fusions, and its siblings."""
    while one.opcode == "bitcast":
        one = here[one.operands[0]]
    if one.opcode in _IN_PLACE:
        return one, here
    if one.opcode == "fusion":
        inner = module.within(one.called("calls"))
        return update_in_place(module, inner, next(x for x in inner.values() if x.root))
    return None


def _exchanges(module: Module, one: Instruction) -> Iterator[Exchange]:
    """The collectives of an instruction, maybe in fusions.

    XLA:TPU cuts a collective that runs beside other work into fusions: one starts it, others hold a
    piece of it each, and the last one ends it. All name it; it is sent once.
    """
    if one.opcode not in ("fusion", "async-start"):
        if exchange := _exchange(one):
            yield exchange
        return
    inner = module.computations[one.called("calls")]
    starts = [each for each in inner if each.target == "AsyncCollectiveStart"]
    started = {name for each in starts for name in each.operands}
    for each in inner:
        if "chain_id=" not in each.rest or each.name in started:
            yield from _exchanges(module, each)


def _exchange(one: Instruction) -> Exchange | None:
    kind = one.opcode.removesuffix("-start")
    if kind not in _COLLECTIVES:
        return None
    groups = re.search(r"replica_groups=(?:\{\{([\d,]+)\}|\[\d+,(\d+)\])", one.rest)
    group = 1 if groups is None else len(groups[1].split(",")) if groups[1] else int(groups[2])
    if kind == "collective-permute":  # it names pairs instead
        group = 2
    # The start of an asynchronous gather has its operand in the result, too; that of a permutation
    # also two words of context.
    shapes = one.shapes
    if one.opcode.endswith("-start") and kind != "all-reduce":
        if kind == "collective-permute":
            shapes = tuple(shape for shape in shapes if shape.dims)
        shapes = shapes[len(shapes) // 2 :]
    size = sum(shape.size for shape in shapes)
    return Exchange(kind, group, size) if group > 1 else None


# -- operations ------------------------------------------------------------------------------------


def _count_operations(
    module: Module, here: dict[str, Instruction], one: Instruction, into: Counter[str]
) -> None:
    if one.opcode == "fusion":
        inner = module.within(one.called("calls"))
        for each in inner.values():
            _count_operations(module, inner, each, into)
        return
    if work := kernel_work(one, [here[name] for name in one.operands if name in here]):
        into[work.factors] += work.operations
        return
    contracted = _contracted(one, here)
    if contracted is not None:
        into[_precision(one, here)] += 2 * math.prod(one.shapes[0].dims) * contracted


def _precision(one: Instruction, here: dict[str, Instruction]) -> str:
    """What a matrix product rounds its factors to; `default` where the program leaves it open."""
    dtype = here[one.operands[0]].shapes[0].dtype
    if dtype != "f32":
        return {"bf16": "bfloat16"}.get(dtype, dtype)
    asked = re.search(r'operand_precision(?:=\{|":\[")(\w+)', one.rest)
    known = {"highest": "float32", "high": "tensorfloat32"}
    return known.get(asked[1].lower() if asked else "", "default")


def _contracted(one: Instruction, here: dict[str, Instruction]) -> int | None:
    """The length of the sums of a matrix product; None if the instruction is none."""
    is_product = one.opcode in ("dot", "convolution") or one.target.startswith(_LIBRARY)
    if not is_product or one.operands[0] not in here:
        return None
    left: Shape = here[one.operands[0]].shapes[0]
    if one.opcode == "convolution":  # a TPU's products
        labels = re.search(r"dim_labels=(\w+)_", one.rest)
        return None if labels is None else left.dims[labels[1].index("f")]
    dims = re.search(r'lhs_contracting_dim(?:ension)?s"?[=:][\[{]"?([\d,"]*)', one.rest)
    if dims is None:
        return None
    places = [int(place) for place in dims[1].replace('"', "").split(",") if place]
    return math.prod(left.dims[place] for place in places)
