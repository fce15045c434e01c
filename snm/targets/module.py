"""Parses the text of a compiled program: computations, instructions, shapes and trip counts."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator

__all__ = ["Instruction", "Module", "Shape"]

_SIZES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4,
          "f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16}  # fmt: skip
_SHAPE = re.compile(r"([a-z]+[0-9]*)\[([0-9,]*)\](\{[^}]*\})?")
_LINE = re.compile(r"\s+(ROOT )?%?([\w.-]+) = (.*)")
_HEADER = re.compile(r"(ENTRY )?%?([\w.-]+) \(.*\{$")
_CALLED = re.compile(
    r"(calls|body|condition|to_apply|true_computation|false_computation)=%?([\w.-]+)"
)


@dataclasses.dataclass(frozen=True)
class Shape:
    """An array of an instruction's result.

    Attributes:
      dtype: the HLO type, such as f32.
      dims: the dimensions.
      on_chip: whether it is in on-chip memory, not in the device's main memory.
    """

    dtype: str
    dims: tuple[int, ...]
    on_chip: bool

    @property
    def size(self) -> int:
        """Bytes, in any memory, without padding of layouts."""
        return _SIZES.get(self.dtype, 0) * math.prod(self.dims)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    Attributes:
      name: unique in the module.
      opcode: such as fusion, scatter, all-reduce-start.
      shapes: of the result, flat.
      operands: names.
      rest: the text after the operands.
      root: whether it is the result of its computation.
      arguments: the text between the parentheses.
    """

    name: str
    opcode: str
    shapes: tuple[Shape, ...]
    operands: tuple[str, ...]
    rest: str
    root: bool
    arguments: str

    @property
    def size(self) -> int:
        """Bytes of the result in main memory."""
        return sum(shape.size for shape in self.shapes if not shape.on_chip)

    def called(self, kind: str) -> str:
        """The computation that it calls as `kind`, such as body."""
        called: str = dict(_CALLED.findall(self.rest))[kind]
        return called

    @property
    def branches(self) -> list[str]:
        """The computations of a conditional."""
        listed = re.search(r"branch_computations=\{([^}]*)\}", self.rest)
        if listed:
            return re.findall(r"%?([\w.-]+)", listed[1])
        return [self.called("true_computation"), self.called("false_computation")]

    @property
    def target(self) -> str:
        """The target of a custom call, or nothing."""
        match = re.search(r'custom_call_target="([^"]+)"', self.rest)
        return match[1] if match else ""


class Module:
    """The text of a compiled program, as `compiled.as_text()` gives it.

    Attributes:
      computations: name -> instructions, in order.
      entry: the name of the first computation to run.
    """

    def __init__(self, text: str):
        self.computations: dict[str, list[Instruction]] = {}
        self.entry = ""
        current: list[Instruction] | None = None
        for line in text.splitlines():
            if current is not None and (parsed := _LINE.match(line)):
                current.append(_instruction(parsed))
            elif header := _HEADER.match(line):
                current = self.computations.setdefault(header[2], [])
                self.entry = header[2] if header[1] else self.entry
            elif line.startswith("}"):
                current = None

    def all(self) -> Iterator[Instruction]:
        """All instructions, including those inside fusions."""
        for body in self.computations.values():
            yield from body

    def within(self, name: str) -> dict[str, Instruction]:
        """The instructions of a computation by name."""
        return {instruction.name: instruction for instruction in self.computations[name]}

    def trips(self, loop: Instruction) -> int | None:
        """The trip count of a while loop; None if the text does not have it."""
        known = re.search(r'known_trip_count":\{"n":"(\d+)"', loop.rest)
        if known:
            return int(known[1])
        # A counter from 0, compared with a constant.
        condition = self.within(loop.called("condition"))
        root = next(instruction for instruction in condition.values() if instruction.root)
        if root.opcode != "compare" or "direction=LT" not in root.rest:
            return None
        limits = [condition[name] for name in root.operands if name in condition]
        for instruction in limits:
            if instruction.opcode == "constant" and instruction.arguments.lstrip("-").isdecimal():
                return int(instruction.arguments)
        return None


def _instruction(parsed: re.Match[str]) -> Instruction:
    text = parsed[3]
    kind, text = _split(text) if text.startswith("(") else text.split(" ", 1)
    opcode, _, rest = text.strip().partition("(")
    inside, rest = _split("(" + rest)
    inside = inside[1:-1]
    operands = tuple(re.findall(r"%([\w.-]+)", inside))
    if not operands and opcode not in ("constant", "parameter", "iota"):
        operands = tuple(part.strip() for part in inside.split(",") if part.strip())
    rest = re.sub(r", metadata=\{(?:[^{}\"]|\"[^\"]*\")*\}", "", rest)
    return Instruction(
        parsed[2], opcode, tuple(_shapes(kind)), operands, rest, bool(parsed[1]), inside
    )


def _split(text: str) -> tuple[str, str]:
    """The text up to the parenthesis that closes the first, and the rest."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[: i + 1], text[i + 1 :]
    return text, ""


def _shapes(text: str) -> Iterator[Shape]:
    for dtype, dims, layout in _SHAPE.findall(text):
        sizes = tuple(int(size) for size in dims.split(",") if size)
        yield Shape(dtype, sizes, "S(" in layout)
