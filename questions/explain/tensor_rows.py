"""Reads the tensors of two observed training steps from the files that the observed processes wrote."""

import gzip
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from maxview_probe.observe.equal_values import name_values
from tasks.records.observation import TENSORS, Pass

type Origin = list[Any]  # ["row", n], ["arg", n], ["lit", text], ["const", digest] or ["parts", [origin, …]]
type Layers = tuple[tuple[str, ...], ...]
type Chain = tuple[tuple[str, int, str, str], ...]  # file, line, function, short file
type Leaf = tuple[Any, ...]  # an origin of the first four kinds, as a tuple

_LOOP = re.compile(r"scan(\d+)\[(\d+)\]")
_LAYER = re.compile(r"(?:^|/)(\w*layers?(?:[_.]|/)\d+)(?=/|$)")


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One result of one operation of a step. The fields are in the order in which `read_steps` passes them."""

    path: str  # loops and calls around the operation, "/scan4[2]/remat"
    operation: str  # JAX primitive
    origins: tuple[Origin, ...]  # one per operand
    file: str  # source file of the trainer; empty for a library's operation
    line: int
    function: str
    short_file: str  # `file` relative to the folder that it is imported from
    stack: str  # JAX's name stack
    type: str  # in the program: "float32[4,256]"
    output: int  # index among the operation's results
    params: str  # the operation's parameters as JSON, which may be cut off
    norm: float  # norm, mean and largest are of the values, in float64; largest is a magnitude
    mean: float
    largest: float
    broken: int  # number of values that are not finite
    value: str  # equal for tensors with equal values, in both arms
    made_by: str = ""  # of a result of a shard_map: the collective that makes it, "psum at train.py:27 step"
    layers: Layers = ()  # for each axis that may stack layers: `value` of each slice
    chain: Chain = ()  # the trainer's frames around the operation, innermost first

    @property
    def place(self) -> str:
        """`file:line function`, or `a library`."""
        return f"{self.short_file}:{self.line} {self.function}" if self.file else "a library"

    @property
    def shape(self) -> str:
        """The shape in brackets, "[4,256]"."""
        return self.type[self.type.index("[") :]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(map(int, filter(None, self.shape[1:-1].split(","))))

    @property
    def direction(self) -> Pass:
        """The pass: forward, recomputed for the gradient, or backward."""
        if "rematted_computation" in self.stack:
            return "recomputed"
        return "backward" if "transpose(" in self.stack else "forward"

    @property
    def layer(self) -> str:
        """The iterations of the operation's loops, e.g. a scan over layers; else the layer's name; else empty."""
        loops = _LOOP.findall(self.path)
        if loops:
            return ", ".join(f"iteration {int(turn) + 1} of {count}" for count, turn in loops)
        named = _LAYER.search(self.stack)
        return named[1] if named else ""

    @property
    def values(self) -> str:
        """The norm, mean, largest magnitude and number of non-finite values as text."""
        broken = f", {self.broken} not finite" if self.broken else ""
        return f"norm {self.norm:.9g}, mean {self.mean:.6g}, largest {self.largest:.6g}{broken}"


@dataclass(frozen=True)
class ObservedStep:
    """All tensors of a step in the program's order, and the origins of its results."""

    rows: list[TensorRow]
    arguments: Sequence[str]  # `TensorRow.value` of each argument
    results: list[Origin]
    stacked: Sequence[Layers] = ()  # `TensorRow.layers` of each argument

    @cached_property
    def live(self) -> frozenset[int]:
        """The indices of the rows that the step's results depend on. JAX also traces operations without an effect."""
        return self.reach(lambda n: True)

    def upstream(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return the rows with these numbers, and all rows that they depend on."""
        found: set[int] = set()
        open_rows = list(numbers)
        while open_rows:
            n = open_rows.pop()
            if n not in found:
                found.add(n)
                open_rows += [leaf[1] for origin in self.rows[n].origins for leaf in leaves(origin) if leaf[0] == "row"]
        return frozenset(found)

    def reach(self, wanted: Callable[[int], bool]) -> frozenset[int]:
        """Return the wanted rows on which a result depends through wanted rows only."""
        found: set[int] = set()
        open_rows = [leaf[1] for origin in self.results for leaf in leaves(origin) if leaf[0] == "row"]
        while open_rows:
            n = open_rows.pop()
            if n not in found and wanted(n):
                found.add(n)
                open_rows += [leaf[1] for origin in self.rows[n].origins for leaf in leaves(origin) if leaf[0] == "row"]
        return frozenset(found)


def read_steps(folders: Sequence[Path]) -> list[ObservedStep]:
    """Return the tensors in the folders of observations. Raises OSError, ValueError."""
    files = [_read_lines(folder / TENSORS) for folder in folders]
    measured = [[*lines[0]["arguments"], *(row["v"] for row in lines[1:-1])] for lines in files]
    sliced = [[*lines[0].get("layers", ()), *(row.get("layers", ()) for row in lines[1:-1])] for lines in files]
    listed = [one for every in sliced for axes in every for axis in axes for one in axis]
    named = iter(name_values([*(v[-1] for values in measured for v in values), *listed]))
    wholes = [[next(named) for _ in values] for values in measured]
    layers = [[tuple(tuple(next(named) for _ in axis) for axis in axes) for axes in every] for every in sliced]
    steps = []
    for lines, names, stacks in zip(files, wholes, layers, strict=True):
        count = len(lines[0]["arguments"])
        rest = len(stacks) - (len(lines) - 2)  # 0: an older observation has no layers
        rows, chains = [], [tuple(map(tuple, chain)) for chain in lines[-1]["chains"]]
        for row, name, stack in zip(lines[1:-1], names[count:], stacks[rest:], strict=True):
            operation = (row["path"], row["op"], tuple(row["from"]), *row["at"])
            made = (row["stack"], row["type"], row["out"], row["params"], *row["v"][:4], name, _name_maker(row))
            rows.append(TensorRow(*(operation + made + (stack, chains[row["chain"]]))))
        steps.append(ObservedStep(rows, names[:count], lines[-1]["results"], stacks[:rest]))
    return steps


def _name_maker(row: Any) -> str:
    operation, file, line, function, short = row.get("made_by", ("", "", 0, "", ""))
    return f"{operation} at {short}:{line} {function}" if file else operation


def _read_lines(file: Path) -> list[Any]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def leaves(origin: Origin) -> list[Leaf]:
    """Return all rows, arguments, literals and constants from which an operand is assembled."""
    if origin[0] == "parts":
        return [leaf for part in origin[1] for leaf in leaves(part)]
    return [tuple(origin)]
