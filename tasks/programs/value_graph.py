"""The types of the graph of a program's values. Each value has hashes of all operations that compute it.

A value has two hashes: `exact` covers all operations, `value` leaves out sharding constraints and optimization
barriers, which change no number.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import NamedTuple, Self

from tasks.records.explanation import CodeLine

RANDOM = "random bits"
# operations that move no data once they are compiled
FREE = frozenset(
    f"stablehlo.{name}"
    for name in (
        "constant",
        "reshape",
        "broadcast_in_dim",
        "iota",
        "get_tuple_element",
        "tuple",
        "optimization_barrier",
    )
)
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([a-zA-Z]\w*)")
_BITS = re.compile(r"\d+")


class Value(NamedTuple):
    """A value, identified by two hashes of its computation. carries: bit mask of the loop carries it depends on."""

    value: str
    exact: str
    carries: int = 0

    @classmethod
    def leaf(cls, *parts: object) -> Self:
        """Return a value without operands, identified by these parts."""
        found = hash_parts(*parts)
        return cls(found, found)

    @classmethod
    def combine(cls, *parts: object, of: Sequence["Value"], ordered: bool = True) -> Self:
        """Return the result of the operation `parts` on the values `of`. ordered: whether their order matters."""
        sides = [[one.value for one in of], [one.exact for one in of]]
        if not ordered:
            sides = [sorted(side) for side in sides]
        carries = reduce(or_, (one.carries for one in of), 0)
        return cls(hash_parts(*parts, *sides[0]), hash_parts(*parts, *sides[1]), carries)


@dataclass(frozen=True, slots=True)
class Node:
    """An operation at one place of the program."""

    name: str  # "stablehlo.add", or RANDOM
    key: str  # hash of the operation, its attributes and types, without the operands' values
    reads: tuple[str, ...]  # exact hashes of its operands
    made: tuple[str, ...]  # exact hashes of its results; inside a loop, of the results in the first iteration
    types: tuple[tuple[str, ...], tuple[str, ...]]  # MLIR types: of the operands, of the results
    detail: str  # its attributes in MLIR syntax
    source: CodeLine
    phase: str  # pass: "forward", "backward", "recomputed" or "update"
    times: int  # executions per step
    flops: int  # FLOPs of all executions of a matrix product; 0 for other operations
    bytes: int  # bytes that all executions read and write; 0 for operations in FREE


class Input(NamedTuple):
    """An argument of the step."""

    type: str  # MLIR type
    sharding: str  # mesh axes per dimension, "(fsdp, -)"
    donated: bool  # the step may overwrite it


@dataclass
class Graph:
    """A program: its arguments, results and operations (nodes)."""

    inputs: dict[str, Input] = field(default_factory=dict)  # meaning → argument
    outputs: dict[str, Value] = field(default_factory=dict)  # meaning → result
    nodes: list[Node] = field(default_factory=list)  # in the text's order; no barriers, shardings, loops, branches
    values: set[str] = field(default_factory=set)  # exact hashes of all operands and results of the nodes
    placements: dict[tuple[str, CodeLine], int] = field(
        default_factory=dict
    )  # (sharding, source line) → executions per step

    @property
    def flops(self) -> int:
        """The FLOPs of all matrix products of a step."""
        return sum(node.flops for node in self.nodes)

    @property
    def bytes(self) -> int:
        """The bytes that the operations of a step would read and write if nothing were fused."""
        return sum(node.bytes for node in self.nodes)

    @property
    def sha256(self) -> str:
        """The program's canonical hash: equal for two texts of one computation."""
        outputs = sorted(value.exact for value in self.outputs.values())
        inputs = sorted((name, *map(str, one)) for name, one in self.inputs.items())
        return hashlib.sha256(repr((inputs, outputs)).encode()).hexdigest()


def hash_parts(*parts: object) -> str:
    """Return the hash of these parts."""
    return hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=12).hexdigest()


def array_type(type_: str) -> tuple[tuple[int, ...], str]:
    """Return the shape and the element type of an array type such as `tensor<4x256xbf16>`; `()` and "" for others."""
    found = _TENSOR.match(type_)
    if not found:
        return (), ""
    return tuple(int(size) for size in found[1].split("x") if size), found[2]


def count_bytes(type_: str) -> int:
    """Return the bytes of an array of this type, at least one per element; 0 if the type names no bits."""
    shape, kind = array_type(type_)
    bits = _BITS.findall(kind)
    return math.prod(shape) * max(int(bits[0]) // 8, 1) if bits else 0
