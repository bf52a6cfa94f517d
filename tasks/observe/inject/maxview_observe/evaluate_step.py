"""Evaluates a step's jaxpr operation by operation, and writes a line of JSON (a row) for each result of each operation.

A row is `{"path", "op", "from", "at", "stack", "type", "out", "params", "v"}`. `from` has the origin of each operand:
`["row", n]` and `["arg", n]` (results and arguments by index), `["lit", text]`, `["const", digest]`, `["part", i,
origin]` (slice i of a scan's input) or `["parts", [origin, …]]` (a scan's stacked output). `v` is the value of
`bits.measure`. The last line is `{"results": [origin, …]}`.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np

from . import bits, jaxprs
from .host_operations import on_host
from .other_arm import DRAW, Draws
from .places import place_of_equation

type Origin = list[Any]
type Operand = tuple[Any, Origin]  # an array, and its origin
_LONG_LOOP = 20_000  # limit of evaluated equations in a scan; a longer scan is evaluated as one operation
_ADDRESS = re.compile(r" at 0x\w+")
_PLACEMENT = frozenset(
    {"sharding", "mesh", "out_sharding", "out_shardings", "context_mesh", "layout", "unconstrained_dims"}
)


class Where(NamedTuple):
    """The loops and calls around an equation."""

    path: str  # "/scan4[2]/remat"
    stack: str  # JAX's name stack
    call: list[Any] = []  # the trainer's line of the innermost call, for operations without a line of their own
    of_library: bool = False  # inside a function of JAX, whose cached trace has the source lines of its first call

    def inside(self, equation: Any, part: str = "", of_library: bool = False) -> "Where":
        """Return the `Where` for the body of an equation."""
        call = self.place_of(equation)
        return Where(self.path + part, self.stack_of(equation), call, self.of_library or of_library)

    def place_of(self, equation: Any) -> list[Any]:
        """Return the fields of `place_of_equation`; the call's for JAX's functions and operations without a line."""
        own = place_of_equation(equation)
        return self.call if self.call and (self.of_library or not own[0]) else own

    def stack_of(self, equation: Any) -> str:
        """Return the name stack of an equation, outermost first."""
        return "/".join(filter(None, (self.stack, str(equation.source_info.name_stack))))


class Evaluation:
    """One evaluation of a step. write: receives each line. rows: number of rows so far. notes: on long scans."""

    def __init__(self, write: Callable[[str], Any], draws: Draws):
        self.write, self.draws, self.rows, self.notes = write, draws, 0, list[str]()
        self._params: dict[int, str] = {}
        self._held: list[Any] = []  # keeps the equations alive whose ids are keys of _params

    def run(self, closed: Any, values: Sequence[Any]) -> list[Any]:
        """Evaluate the step on its arguments `values`; return its results."""
        operands: list[Operand] = [(to_numpy(value), ["arg", place]) for place, value in enumerate(values)]
        results = self._jaxpr(closed.jaxpr, closed.consts, operands, Where("", ""))
        self.write(json.dumps({"results": [origin for _, origin in results]}))
        return [value for value, _ in results]

    def _jaxpr(self, jaxpr: Any, consts: Sequence[Any], operands: list[Operand], where: Where) -> list[Operand]:
        """Evaluate a jaxpr; return its results. Empties `operands`, so that an array is freed after its last use."""
        known: dict[Any, Operand] = {}

        def read(variable: Any) -> Operand:
            if hasattr(variable, "val"):
                return np.asarray(variable.val, getattr(variable.aval, "dtype", None)), ["lit", str(variable.val)]
            return known[variable]

        for variable, value in zip(jaxpr.constvars, consts, strict=True):
            known[variable] = value, ["const", bits.measure(value)[-1] if hasattr(value, "dtype") else str(value)]
        known.update(zip(jaxpr.invars, operands, strict=True))
        operands.clear()
        last_use = {
            variable: n for n, eqn in enumerate(jaxpr.eqns) for variable in eqn.invars if not hasattr(variable, "val")
        }
        kept = {variable for variable in jaxpr.outvars if not hasattr(variable, "val")}
        for n, equation in enumerate(jaxpr.eqns):
            with getattr(equation.ctx, "manager", None) or nullcontext():
                made = self._equation(equation, [read(variable) for variable in equation.invars], where)
            known.update(zip(equation.outvars, made, strict=True))
            for variable in equation.invars:
                if not hasattr(variable, "val") and last_use[variable] == n and variable not in kept:
                    known.pop(variable, None)
        return [read(variable) for variable in jaxpr.outvars]

    def _equation(self, equation: Any, operands: list[Operand], where: Where) -> list[Operand]:
        body, name = jaxprs.inlined_body(equation), equation.primitive.name
        if body is not None:
            part = "/remat" if name in jaxprs.REMAT else ""
            return self._jaxpr(*body, operands, where.inside(equation, part, jaxprs.is_of_jax(body[0])))
        if name == "cond":
            branches = equation.params["branches"]
            chosen = min(max(int(operands[0][0]), 0), len(branches) - 1)
            return self._jaxpr(
                *jaxprs.open_body(branches[chosen]), operands[1:], where.inside(equation, f"/branch{chosen}")
            )
        if name == "scan":
            length, inside = equation.params["length"], sum(1 for _ in jaxprs.equations(equation.params["jaxpr"].jaxpr))
            if length * inside <= _LONG_LOOP:
                return self._scan(equation, operands, where)
            self.notes.append(f"a loop of {length} × {inside} operations is looked at as one")
        values = [value for value, _ in operands]
        results = on_host(name, equation.params, values) or jaxprs.on_one_device(equation, values)
        if results is None:
            results = [to_numpy(value) for value in jaxprs.bind(equation, values)]
        if name == DRAW:
            results = [self.draws.share(where.path, value) for value in results]
        origins = [origin for _, origin in operands]
        return [(value, self._row(equation, value, n, where, origins)) for n, value in enumerate(results)]

    def _scan(self, equation: Any, operands: list[Operand], where: Where) -> list[Operand]:
        params = equation.params
        length, (consts, carries) = params["length"], jaxprs.scan_sizes(params)
        body, held = jaxprs.open_body(params["jaxpr"])
        fixed, carry, rows = operands[:consts], operands[consts : consts + carries], operands[consts + carries :]
        made: list[list[Operand]] = [[]] * length
        for i in reversed(range(length)) if params["reverse"] else range(length):
            given = [*fixed, *carry, *((row[i], part_of(origin, i)) for row, origin in rows)]
            results = self._jaxpr(body, held, given, where.inside(equation, f"/scan{length}[{i}]"))
            carry, made[i] = results[:carries], results[carries:]
        if not length:
            return [
                *carry,
                *((np.zeros(v.aval.shape, v.aval.dtype), ["parts", []]) for v in equation.outvars[carries:]),
            ]
        return [*carry, *map(stack, zip(*made, strict=True))]

    def _row(self, equation: Any, value: Any, output: int, where: Where, origins: list[Origin]) -> Origin:
        row = {
            "path": where.path,
            "op": equation.primitive.name,
            "from": origins,
            "at": where.place_of(equation),
            "stack": where.stack_of(equation),
            "type": f"{value.dtype}[{','.join(map(str, value.shape))}]",
            "out": output,
            "params": self._brief(equation),
            "v": bits.measure(value),
        }
        self.write(json.dumps(row))
        self.rows += 1
        return ["row", self.rows - 1]

    def _brief(self, equation: Any) -> str:
        """Return the equation's parameters as truncated JSON, without shardings, functions, jaxprs and addresses."""
        found = self._params.get(id(equation))
        if found is None:
            self._held.append(equation)
            shown = {
                key: str(value)
                for key, value in sorted(equation.params.items())
                if key not in _PLACEMENT and "jaxpr" not in key and not callable(value)
            }
            found = self._params[id(equation)] = _ADDRESS.sub("", json.dumps(shown))[:400]
        return found


def to_numpy(value: Any) -> Any:
    """Return an array on the host; typed keys stay JAX arrays."""
    return value if bits.is_key(value) else np.asarray(value)


def stack(rows: Sequence[Operand]) -> Operand:
    """Return the rows of a scan's output as one array, with their origins."""
    values = [value for value, _ in rows]
    return (jax.numpy if bits.is_key(values[0]) else np).stack(values), ["parts", [origin for _, origin in rows]]


def part_of(origin: Origin, i: int) -> Origin:
    """Return the origin of slice `i` of a scan's input."""
    return origin[1][i] if origin[0] == "parts" else ["part", i, origin]
