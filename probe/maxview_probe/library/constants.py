"""Finds out whether constants that each function rounds to its type are all that differs.

A constant in a program is the nearest number of its type: `x * 0.1` multiplies by another number in bfloat16 than in
float32, and `x / sqrt(80)` by another than `x * 0.1118034`. The number meant lies within half a unit in the last place.
So numbers there are searched with which both functions agree in float64, everywhere.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from maxview_probe.evaluate.recorded_step import mlir_context, parse_program
from maxview_probe.evaluate.run_program import RunnableProgram
from maxview_probe.evaluate.widen import walk

HALF_UNITS = {"f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}  # type → largest relative rounding
BITS = {"f32": 14, "bf16": 3, "f16": 4}  # a constant of so few bits is meant exactly: 0.5, 3, 1.25
MOST, ITERATIONS, SAMPLED = 24, 4, 20_000
BOUND = 1.01  # half units


class Constants:
    """The constants of one function's float64 program that a narrow type may have rounded."""

    def __init__(self, text: str, devices: int, platform: str):
        """Read them. text: of the program; its constants are converted to float64."""
        self.text, self.devices, self.platform = text, devices, platform
        with mlir_context():
            # equal numbers are one number, in a function and in its gradient
            self.values = list(dict.fromkeys((value, kind) for _, value, kind in _find(parse_program(text))))

    def rewrite(self, shifts: Any) -> str:
        """Return the program's text with constants that are moved by `shifts` half units."""
        with mlir_context():
            module = parse_program(self.text)
            moved = dict(zip(self.values, shifts, strict=True))
            for operation, value, kind in _find(module):
                if shift := moved[value, kind]:
                    _set(operation, value * (1 + HALF_UNITS[kind] * shift))
            return str(module.operation.get_asm(enable_debug_info=True))

    def run(self, shifts: Any, given: Sequence[Any], chosen: Sequence[int]) -> Any:
        """Return the results `chosen` of the rewritten program, as one vector of at most SAMPLED values each."""
        program = RunnableProgram(self.rewrite(shifts), self.devices, quickly=True, platform=self.platform)
        results = program(given)
        return np.concatenate([results[n].ravel()[:: max(1, results[n].size // SAMPLED)] for n in chosen])


def find_shifts(
    sides: tuple[Constants, Constants], given: Sequence[Any], chosen: Sequence[int]
) -> tuple[list[float], list[float]] | None:
    """Return the shifts of both sides' constants, in half units, that bring the results together; None if none do.

    chosen: indices of the results that differ.
    """
    counts = [len(one.values) for one in sides]
    if not 0 < sum(counts) <= MOST:
        return None
    # takes longer to import than the library, and few comparisons need it
    from scipy.optimize import lsq_linear  # type: ignore[import-untyped]

    shifts = [np.zeros(count) for count in counts]
    gap = np.inf
    for number in range(ITERATIONS):
        now = [one.run(its, given, chosen) for one, its in zip(sides, shifts, strict=True)]
        wanted = now[1] - now[0]
        before, gap = gap, float(np.linalg.norm(wanted))
        if not np.isfinite(gap) or gap >= before:
            break
        columns = []
        for sign, one, its, base in zip((1.0, -1.0), sides, shifts, now, strict=True):
            for n in range(len(its)):
                moved = its.copy()
                moved[n] += 0.25
                columns.append(sign * 4 * (one.run(moved, given, chosen) - base))
        matrix = np.stack(columns, axis=1)
        if not np.isfinite(matrix).all():
            return None
        scale = np.linalg.norm(matrix) or 1.0
        together = np.concatenate(shifts)
        low, high = -BOUND - together - 1e-9, BOUND - together + 1e-9
        step = lsq_linear(matrix / scale, wanted / scale, bounds=(low, high), method="bvls").x
        if float(np.linalg.norm(wanted - matrix @ step)) > 0.1 * gap:
            if number:
                break  # what is left is rounding, or else the next comparison finds it
            return None
        together = together + step
        shifts = [together[: counts[0]], together[counts[0] :]]
    return [float(one) for one in shifts[0]], [float(one) for one in shifts[1]]


def _find(module: Any) -> list[tuple[Any, float, str]]:
    """Return (conversion to float64, value, type) of each constant of one narrow number that is not exact."""
    found = []
    for operation in walk(module.operation):
        if operation.name != "stablehlo.convert":
            continue
        made = operation.operands[0].owner
        made = getattr(made, "operation", made)
        if isinstance(made, ir.Block) or made.name != "stablehlo.constant":
            continue
        kind = str(ir.RankedTensorType(operation.operands[0].type).element_type)
        values = ir.DenseElementsAttr(made.attributes["value"])
        if kind not in HALF_UNITS or not values.is_splat:
            continue
        value = float(ir.FloatAttr(values.get_splat_value()).value)
        if value and np.isfinite(value) and not _is_exact(value, BITS[kind]):
            found.append((operation, value, kind))
    return found


def _is_exact(value: float, bits: int) -> bool:
    fraction = abs(float(np.frexp(value)[0])) * 2.0**bits
    return fraction == round(fraction)


def _set(operation: Any, value: float) -> None:
    kind = ir.RankedTensorType(operation.results[0].type)
    number = ir.FloatAttr.get(ir.F64Type.get(), value)
    with operation.location, ir.InsertionPoint(operation):
        made = ir.Operation.create(
            "stablehlo.constant", results=[kind], attributes={"value": ir.DenseElementsAttr.get_splat(kind, number)}
        )
    operation.results[0].replace_all_uses_with(made.results[0])
