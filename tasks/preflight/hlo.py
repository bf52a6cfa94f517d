"""Turns the text of an optimised HLO program into its computations and instructions, each with its line."""

import math
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

NO_ESTIMATE = 2**62
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
    """An array's type."""

    dtype: str
    sizes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """What its values take, without padding."""
        if self.dtype in ("token", "opaque"):
            return 0
        bits = 8 if self.dtype == "pred" else int(_BITS.findall(self.dtype)[0])
        return math.prod(self.sizes) * bits // 8


class Instruction(NamedTuple):
    """One line of a computation."""

    name: str
    opcode: str
    shapes: tuple[Shape, ...]  # of a tuple all in a row
    operands: tuple[str, ...]
    literal: str  # what stands between the parentheses
    attributes: str  # all that follows them
    line: int  # 1-based
    offset: int  # of the line, in bytes

    @property
    def op_name(self) -> str:
        """Where in the trainer's source it comes from, as JAX names it; empty if it does not say."""
        found = _OP_NAME.search(self.attributes)
        return found[1] if found else ""

    @property
    def calls(self) -> dict[str, str]:
        """The computations that it names, by the role that each has."""
        return dict(_ATTRIBUTE.findall(self.attributes))

    @property
    def branches(self) -> tuple[str, ...]:
        """The computations of a conditional."""
        return tuple(
            name for many, one in _BRANCHES.findall(self.attributes) for name in ([one] if one else _NAME.findall(many))
        )

    @property
    def cycles(self) -> int | None:
        """The estimate of one execution; None where the compiler has none, which it may write as the largest number."""
        found = _CYCLES.search(self.attributes)
        return int(found[1]) if found and int(found[1]) < NO_ESTIMATE else None

    @property
    def known_trips(self) -> int | None:
        """How often a loop goes round, where the compiler wrote it down."""
        found = _TRIPS.search(self.attributes)
        return int(found[1]) if found else None

    @property
    def target(self) -> str:
        """What a custom call calls."""
        found = _TARGET.search(self.attributes)
        return found[1] if found else ""


class Computation(NamedTuple):
    """A function of the program."""

    name: str
    is_entry: bool
    instructions: dict[str, Instruction]  # in their order; the last one is the result


class Program(NamedTuple):
    """A whole program."""

    computations: dict[str, Computation]
    aliases: int  # outputs that are written into the place of an input
    lines: int


def read_program(lines: Iterable[str]) -> Program:
    """The program in the lines of a text, line ends included. Raises ValueError if it has no entry."""
    computations: dict[str, Computation] = {}
    here: Computation | None = None
    last: tuple[str, str, int, int] | None = None  # an instruction, which a kernel's own words may break over lines
    aliases = offset = number = 0

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
    return Program(computations, aliases, number)


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
    """A type, which may be a tuple of types, and what follows it."""
    if text.startswith("("):
        end = _end_of_group(text[1:]) + 2
        return text[:end], text[end + 1 :]
    kind, _, rest = text.partition(" ")
    return kind, rest


def _end_of_group(text: str) -> int:
    """Where the parenthesis closes that was opened just before the text."""
    depth = 1
    for found in re.finditer(r"[()]", text):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.start()
    return len(text)


def _shapes(text: str) -> Iterator[Shape]:
    for dtype, sizes in _SHAPE.findall(text):
        yield Shape(dtype, tuple(int(size.lstrip("<=")) for size in sizes.split(",") if size))
