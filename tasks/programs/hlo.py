"""Parses the text of an optimised HLO program into computations (lists of instructions) and instructions."""

import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

NO_ESTIMATE = 2**62  # the compiler writes this many cycles or more if it has no estimate
_COMPUTATION = re.compile(r"^(ENTRY )?%(\S+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%(\S+) = (.*)$")
_END = re.compile(r'^\}(?:, execution_thread="[^"]*")?$')
_SHAPE = re.compile(r"\b(pred|token|opaque|(?:bf|f|s|u|c)\d+(?:e\dm\d\w*)?)\[([\d,<=]*)\]")
_BITS = re.compile(r"\d+")
_ATTRIBUTE = re.compile(r"\b(calls|to_apply|condition|body)=%([^\s,)}]+)")
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}|\b(?:true|false)_computation=%([^\s,)}]+)")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_NAME = re.compile(r"%([^\s,(){}]+)")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_TARGET = re.compile(r'custom_call_target="([^"]*)"')


class Shape(NamedTuple):
    """An array's element type and dimensions."""

    dtype: str
    sizes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """The bytes of its values, without padding."""
        if self.dtype in ("token", "opaque"):
            return 0
        bits = 8 if self.dtype == "pred" else int(_BITS.findall(self.dtype)[0])
        return math.prod(self.sizes) * bits // 8


class Instruction(NamedTuple):
    """An instruction of a computation, with its line in the text."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]  # a tuple's shapes, flattened
    operands: tuple[str, ...]
    literal: str  # the text between the opcode's parentheses: operands, a constant's value, a parameter's number
    attributes: str  # the text after the parentheses
    line: int  # 1-based; the first line if the instruction has several
    offset: int  # number of bytes in the text before this line

    @property
    def op_name(self) -> str:
        """JAX's name of the operation, with the trainer's scopes and JAX's passes; empty without one."""
        return self._find(_OP_NAME)

    @property
    def calls(self) -> dict[str, str]:
        """Role ("calls", "to_apply", "condition" or "body") → name of the called computation."""
        return dict(_ATTRIBUTE.findall(self.attributes))

    @property
    def branches(self) -> tuple[str, ...]:
        """The names of a conditional's computations."""
        return tuple(
            name for many, one in _BRANCHES.findall(self.attributes) for name in ([one] if one else _NAME.findall(many))
        )

    @property
    def cycles(self) -> int | None:
        """The compiler's estimate of the cycles of one execution; None without an estimate."""
        text = self._find(_CYCLES)
        return int(text) if text and int(text) < NO_ESTIMATE else None

    @property
    def known_trips(self) -> int | None:
        """A loop's number of iterations; None if the compiler did not write it into the text."""
        text = self._find(_TRIPS)
        return int(text) if text else None

    @property
    def target(self) -> str:
        """The target of a custom call; empty for other instructions."""
        return self._find(_TARGET)

    def _find(self, pattern: re.Pattern[str]) -> str:
        found = pattern.search(self.attributes)
        return found[1] if found else ""


class Computation(NamedTuple):
    """One computation of the program."""

    name: str
    is_entry: bool
    instructions: dict[str, Instruction]  # in the text's order; the last one is the result


class Program(NamedTuple):
    """A parsed program."""

    computations: dict[str, Computation]  # by name
    aliases: int  # number of outputs written in place of an input


def read_program(lines: Iterable[str]) -> Program:
    """Parse a program from a text's lines with their line ends. Raises ValueError if it has no entry computation."""
    computations: dict[str, Computation] = {}
    here: Computation | None = None
    last: tuple[str, str, int, int] | None = (
        None  # the current instruction, which may continue on the next line, as kernels do
    )
    aliases = offset = 0

    def keep() -> None:
        if here is not None and last is not None:
            here.instructions[last[0]] = _read_instruction(*last)

    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\n")
        if here is None:
            if text.startswith("HloModule "):
                aliases = text.count("-alias)")
            elif found := _COMPUTATION.match(text):
                here = Computation(found[2], bool(found[1]), {})
        elif _END.match(text):
            keep()
            computations[here.name] = here
            here = last = None
        elif found := _INSTRUCTION.match(text):
            keep()
            last = found[2], found[3], number, offset
        elif last is not None:
            last = last[0], f"{last[1]} {text}", *last[2:]
        offset += len(line.encode())
    if not any(one.is_entry for one in computations.values()):
        raise ValueError("is no text of an optimised program: it has no ENTRY")
    return Program(computations, aliases)


def _read_instruction(name: str, rest: str, line: int, offset: int) -> Instruction:
    kind, rest = _split_type(rest)
    opcode, _, rest = rest.partition("(")
    end = _end_of_group(rest)
    literal = rest[:end]
    return Instruction(
        name=name,
        opcode=opcode.strip(),
        shapes=tuple(_shapes(kind)),
        operands=() if opcode.strip() in ("constant", "parameter", "iota") else tuple(_NAME.findall(literal)),
        literal=literal,
        attributes=rest[end:],
        line=line,
        offset=offset,
    )


def _split_type(text: str) -> tuple[str, str]:
    """Split a text into its leading type, which may be a tuple, and the rest without the space between them."""
    if text.startswith("("):
        end = _end_of_group(text[1:]) + 2
        return text[:end], text[end + 1 :]
    kind, _, rest = text.partition(" ")
    return kind, rest


def _end_of_group(text: str) -> int:
    """Return the index of the parenthesis that closes a group; the text begins after the open one. Else its length."""
    depth = 1
    for found in re.finditer(r"[()]", text):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.start()
    return len(text)


def _shapes(text: str) -> Iterator[Shape]:
    for dtype, sizes in _SHAPE.findall(text):
        yield Shape(dtype, tuple(int(size.lstrip("<=")) for size in sizes.split(",") if size))
