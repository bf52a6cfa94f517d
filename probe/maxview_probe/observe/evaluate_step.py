"""Evaluates a step's jaxpr operation by operation in float64, and writes a line of JSON (a row) for each result.

A row is `{"path", "op", "from", "at", "stack", "type", "out", "params", "v"}`. `from` has the origin of each operand:
`["row", n]` and `["arg", n]` (results and arguments by index), `["lit", text]`, `["const", digest]` or
`["parts", [origin, …]]` (a scan's stacked output). A slice of a scan's input is a row, too. `type` is the program's.
`made_by` has the collective that makes a result of a `shard_map` on several devices, and its place. `chain` is the
index of a chain of calls among those of the last line: the trainer's frames around the operation, innermost first.
`v` is the value of `bits.take_fingerprint` for floats, else of `bits.measure`. `layers` has the last field of `v` for
each slice along each axis that is as long as a scan: of layers that are stacked here, and written out in another arm.
The first line is `{"arguments": [v, …], "layers": [layers, …]}`, the last line
`{"results": [origin, …], "chains": [[[file, line, function, short file], …], …]}`.

Every float has a shadow: the result of the same operations if each of them rounds a little differently. Its distance to
the value says how far rounding alone can move the value, also after a cancellation. Decisions (comparisons, indices,
explicit rounding) of the shadow are those of the value.
"""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from maxview_probe.observe import bits, float64, jaxprs
from maxview_probe.observe.other_arm import DRAW, Draws
from maxview_probe.observe.places import chain_of_equation, place_of_equation
from maxview_probe.observe.stderr_lines import describe_error

Origin: TypeAlias = list[Any]
Operand: TypeAlias = tuple[Any, Any, Origin]  # an array, its shadow, and its origin
_LONG_LOOP = 20_000  # limit of evaluated equations in a scan; a longer scan is evaluated as one operation
SLICE = "slice of a loop's input"
_ROUNDING = frozenset({"round", "floor", "ceil", "sign"})
_ADDRESS = re.compile(r" at 0x\w+")
_PLACEMENT = frozenset(
    {"sharding", "mesh", "out_sharding", "out_shardings", "context_mesh", "layout", "unconstrained_dims"}
)


class Where(NamedTuple):
    """The loops and calls around an equation."""

    path: str  # "/scan4[2]/remat"
    stack: str  # JAX's name stack
    call: list[list[Any]] = []  # the chain of the innermost call, for operations without a line of their own
    of_library: bool = False  # inside a function of JAX, whose cached trace has the source lines of its first call

    def inside(self, equation: Any, part: str = "", of_library: bool = False) -> "Where":
        """Return the `Where` for the body of an equation."""
        call = self.chain_of(equation)
        return Where(self.path + part, self.stack_of(equation), call, self.of_library or of_library)

    def chain_of(self, equation: Any) -> list[list[Any]]:
        """Return `chain_of_equation`; the call's for JAX's functions and operations without a line."""
        own = chain_of_equation(equation)
        return self.call if self.call and (self.of_library or not own) else own

    def stack_of(self, equation: Any) -> str:
        """Return the name stack of an equation, outermost first."""
        return "/".join(filter(None, (self.stack, str(equation.source_info.name_stack))))


class StepEvaluation:
    """One evaluation of a step. write: receives each line. rows: number of rows so far. notes: on long scans."""

    def __init__(self, write: Callable[[str], Any], draws: Draws):
        self.write, self.draws, self.rows, self.notes = write, draws, 0, list[str]()
        self._wide: dict[int, dict[str, Any]] = {}  # id of an equation → its parameters in float64
        self._params: dict[int, str] = {}
        self._held: list[Any] = []  # keeps the equations alive whose ids are keys
        self._narrow: set[str] = set()  # operations that JAX cannot do in float64
        self._chains: dict[int, tuple[int, list[list[Any]]]] = {}  # id of a chain → its index, and itself
        self._lengths: set[int] = set()  # of the step's scans

    def run(self, closed: Any, values: Sequence[Any]) -> list[Any]:
        """Evaluate the step on its arguments `values`; return its results, with float64 in place of other floats."""
        cpus = jax.devices("cpu") if "cpu" in str(jax.config.jax_platforms or "cpu") else [None]
        with jax.enable_x64(True), jax.default_device(cpus[0]):
            wide = [float64.widen(to_numpy(value)) for value in values]
            scans = [one for one in jaxprs.equations(closed.jaxpr) if one.primitive.name == "scan"]
            self._lengths = {one.params["length"] for one in scans} - {0, 1}
            layers = [self._measure_layers(value, value) for value in wide]
            self.write(json.dumps({"arguments": [measure_row(value, value) for value in wide], "layers": layers}))
            operands: list[Operand] = [(value, value, ["arg", place]) for place, value in enumerate(wide)]
            results = self._jaxpr(closed.jaxpr, closed.consts, operands, Where("", ""))
        chains = [chain for _, chain in self._chains.values()]
        self.write(json.dumps({"results": [origin for *_, origin in results], "chains": chains}))
        return [value for value, *_ in results]

    def _jaxpr(self, jaxpr: Any, consts: Sequence[Any], operands: list[Operand], where: Where) -> list[Operand]:
        """Evaluate a jaxpr; return its results. Empties `operands`, so that an array is freed after its last use."""
        known: dict[Any, Operand] = {}

        def read(variable: Any) -> Operand:
            if hasattr(variable, "val"):
                value = float64.literal(variable)
                return value, value, ["lit", str(variable.val)]
            return known[variable]

        for variable, held in zip(jaxpr.constvars, consts, strict=True):
            value = float64.widen(to_numpy(held))
            known[variable] = value, value, ["const", bits.measure_array(value)[-1]]
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
        params = self._widen(equation)
        results = [to_numpy(value) for value in self._run(equation, params, [value for value, *_ in operands])]
        if name == DRAW:
            results = [self.draws.share(where.path, value) for value in results]
        shadows = results
        if name not in _ROUNDING and any(float64.is_float(one) for one in (*results, *equation.outvars)):
            if any(shadow is not value for value, shadow, _ in operands):
                shadows = self._run(equation, params, [shadow for _, shadow, _ in operands])
            if any(float64.is_float(value) for value, *_ in operands):
                shadows = [
                    bits.perturb_values(to_numpy(one), self.rows) if float64.is_float(one) else one for one in shadows
                ]
        origins = [origin for *_, origin in operands]
        return [
            (
                value,
                shadow if float64.is_float(value) else value,
                self._row(equation, value, shadow, where, origins, variable=variable, output=n),
            )
            for n, (value, shadow, variable) in enumerate(zip(results, shadows, equation.outvars, strict=True))
        ]

    def _run(self, equation: Any, params: dict[str, Any], values: Sequence[Any]) -> list[Any]:
        """Return the results of one equation in float64; in the program's own types if JAX cannot do it in float64."""
        name = equation.primitive.name
        if name not in self._narrow:
            try:
                return float64.run_equation(equation, params, values)
            except Exception as error:
                self._narrow.add(name)
                self.notes.append(f"{name} is evaluated as it rounds: {describe_error(error)}")
        return float64.narrowly(equation, values)

    def _widen(self, equation: Any) -> dict[str, Any]:
        found = self._wide.get(id(equation))
        if found is None:
            self._held.append(equation)
            try:
                found = float64.widened_params(equation)
            except Exception:  # an inner program that cannot be traced in float64
                found = equation.params
            self._wide[id(equation)] = found
        return found

    def _scan(self, equation: Any, operands: list[Operand], where: Where) -> list[Operand]:
        params = equation.params
        length, (consts, carries) = params["length"], jaxprs.scan_sizes(params)
        body, held = jaxprs.open_body(params["jaxpr"])
        fixed, carry, rows = operands[:consts], operands[consts : consts + carries], operands[consts + carries :]
        inputs = list(zip(rows, body.invars[consts + carries :], strict=True))
        made: list[list[Operand]] = [[]] * length
        for i in reversed(range(length)) if params["reverse"] else range(length):
            inside = where.inside(equation, f"/scan{length}[{i}]")
            given = [*fixed, *carry, *(self._slice(equation, row, variable, i, inside) for row, variable in inputs)]
            results = self._jaxpr(body, held, given, inside)
            carry, made[i] = results[:carries], results[carries:]
        if not length:
            return [
                *carry,
                *(stack_none(variable) for variable in equation.outvars[carries:]),
            ]
        return [*carry, *map(stack, zip(*made, strict=True))]

    def _slice(self, equation: Any, operand: Operand, variable: Any, i: int, where: Where) -> Operand:
        """Return slice `i` of a scan's input, whose type the variable has."""
        whole, shadows, origin = operand
        value = whole[i]
        shadow = value if shadows is whole else shadows[i]
        if origin[0] == "parts":
            return value, shadow, origin[1][i]
        return value, shadow, self._row(equation, value, shadow, where, [origin], variable=variable, operation=SLICE)

    def _row(
        self,
        equation: Any,
        value: Any,
        shadow: Any,
        where: Where,
        origins: list[Origin],
        *,
        variable: Any,
        output: int = 0,
        operation: str = "",
    ) -> Origin:
        """Write a row; return its origin. variable: has the program's type."""
        kind, chain = variable.aval.dtype, where.chain_of(equation)
        row = {
            "path": where.path,
            "op": operation or equation.primitive.name,
            "from": origins,
            "at": chain[0] if chain else ["", 0, "", ""],
            "chain": self._chains.setdefault(id(chain), (len(self._chains), chain))[0],
            "stack": where.stack_of(equation),
            "type": f"{kind}[{','.join(map(str, value.shape))}]",
            "out": output,
            "params": self._brief(equation),
            "v": measure_row(value, shadow),
        }
        if (combined := jaxprs.find_collective(equation, output)) is not None:
            row["made_by"] = [combined.primitive.name, *place_of_equation(combined)]
        if not where.path and (layers := self._measure_layers(value, shadow)):
            row["layers"] = layers
        self.write(json.dumps(row))
        self.rows += 1
        return ["row", self.rows - 1]

    def _measure_layers(self, value: Any, shadow: Any) -> list[list[Any]]:
        """Return for each axis that is as long as a scan of the step the fingerprint of each slice; only of floats."""
        if not float64.is_float(value):
            return []
        axes = [axis for axis, size in enumerate(value.shape) if size in self._lengths]
        parts = [zip(np.moveaxis(value, axis, 0), np.moveaxis(shadow, axis, 0), strict=True) for axis in axes]
        return [[bits.take_fingerprint(*both)[-1] for both in part] for part in parts]

    def _brief(self, equation: Any) -> str:
        """Return the equation's parameters as truncated JSON, without shardings, functions, jaxprs and addresses."""
        found = self._params.get(id(equation))
        if found is None:
            shown = {
                key: str(sorted(value) if isinstance(value, frozenset) else value)
                for key, value in sorted(self._widen(equation).items())
                if key not in _PLACEMENT and "jaxpr" not in key and not callable(value)
            }
            found = self._params[id(equation)] = _ADDRESS.sub("", json.dumps(shown))[:400]
        return found


def measure_row(value: Any, shadow: Any) -> list[Any]:
    """Return the numbers of a row: with a fingerprint for floats, with the digest of the bits for other arrays."""
    return bits.take_fingerprint(value, shadow) if float64.is_float(value) else bits.measure_array(value)


def to_numpy(value: Any) -> Any:
    """Return an array on the host; typed keys stay JAX arrays."""
    return value if bits.is_key(value) else np.asarray(value)


def stack(rows: Sequence[Operand]) -> Operand:
    """Return the rows of a scan's output as one array, with their origins."""
    values, shadows, origins = zip(*rows, strict=True)
    join = (jax.numpy if bits.is_key(values[0]) else np).stack
    whole = join(values)
    is_shadow = any(value is not shadow for value, shadow in zip(values, shadows, strict=True))
    return whole, join(shadows) if is_shadow else whole, ["parts", list(origins)]


def stack_none(variable: Any) -> Operand:
    """Return the output of a scan without iterations."""
    none = np.zeros(variable.aval.shape, float64.widened_type(variable.aval.dtype))
    return none, none, ["parts", []]
