"""Compares two functions: in float64, at the given arguments and at others of their kinds; as they run; as programs."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import hypot, inf
from typing import Any

import jax
import numpy as np
from jaxlib.mlir import ir

from maxview_probe.evaluate.compare_function import distance, list_float_types, to_float64
from maxview_probe.evaluate.conditions import (
    Condition,
    expose_conditions,
    find_own_conditions,
    list_conditions,
)
from maxview_probe.evaluate.limits import FAR, GROUP_SHARE, NOISE, SAME
from maxview_probe.evaluate.match import ArrayOrigin
from maxview_probe.evaluate.recorded_step import mlir_context, parse_program
from maxview_probe.evaluate.run_program import RunnableProgram
from maxview_probe.evaluate.sweep import SweptArm
from maxview_probe.evaluate.widen import as_run, widen_program
from maxview_probe.library.constants import Constants, find_shifts
from maxview_probe.library.errors import CannotCompare, in_user_terms, name_functions, shorten
from maxview_probe.library.result import Gap, Result, Root, Rounding
from maxview_probe.library.roots import are_rounding, evaluate, find_roots
from maxview_probe.library.states import GIVEN, HARMLESS, FunctionSweep
from maxview_probe.library.traced import GRADIENT, RESULT, TracedFunction, read_arguments, trace

SWEEP_S = 20.0  # after this no further state is begun
DRAWN = 1e-9  # limit at drawn arguments, which are as large as the given ones
CONFIRMED = 3  # states at which a difference is looked at, operation by operation
CPU = "cpu"
SHARED = 60  # conditions of a program up to which those are watched, too, that both programs have
CONSTANTS = {"f32": 1e-4, "bf16": 0.1, "f16": 0.01}  # larger differences are not looked for in rounded constants
_INFINITE = re.compile(
    r"(?:stablehlo\.(?:broadcast_in_dim|convert|reshape)\[[^\]]*\]\()*dense<0x(?:FF8|7F8|FC0|7C0|FFF|7FF)0+> "
)
LARGEST = (2.0**31 - 1, 2.0**32 - 1, 2.0**63)  # as floats; a counter stops there
_NARROW = ("f8", "bf16", "f16", "f32", "f64")


def compare(old: Callable[..., Any], new: Callable[..., Any], args: Sequence[Any], *, grad: bool) -> Result:
    """Return whether two functions compute the same. Raises CannotCompare with a sentence."""
    began = time.monotonic()
    names = name_functions(old, new)
    traced, cotangents, values = trace_both(old, new, args, names, grad=grad)
    slots = traced[1].outputs
    results = tuple(slot.meaning for slot in slots)
    kind = min(list_float_types(one.text for one in traced), key=_width, default="f32")
    if program_of(traced[0].text) == program_of(traced[1].text):
        return Result(
            True, 0.0, Rounding(0.0, 0.0, kind), results, (), one_program=True, names=names,
            seconds=time.monotonic() - began,
        )  # fmt: skip
    given = [[*values, *its] for its in cotangents]
    with jax.enable_x64(True):
        texts = _widen(traced, names)
        programs = _compile(traced, texts, names)
        first = [to_float64(one) for one in given[0]]
        arms = tuple(SweptArm(wide, text.watched) for (_, wide), text in zip(programs, texts, strict=True))
        exact = [arm.run(first) for arm in arms]
        _refuse_nan(traced, exact, names)
        rounding = _measure_rounding(traced, programs, given, exact, kind)
        swept = _Swept(traced, (arms[0], arms[1]), first)
        gaps, roots = swept.find_difference()
        constants = ""
        if (
            gaps
            and gaps[0].size <= CONSTANTS.get(kind, 0.0)
            and (again := _without_rounded_constants(swept, texts, gaps))
        ):
            constants = f"a constant is rounded to {kind}, by which {gaps[0].name} differs by {gaps[0].size:.0e}"
            swept, gaps, roots = again, (), ()
    own = [gap for state in swept.found if state["state"] == GIVEN for gap in _sizes(state)]
    return Result(
        same=not gaps,
        largest=gaps[0].size if gaps else max(own, default=0.0),
        rounding=rounding,
        results=results,
        states=tuple(state["state"] for state in swept.found),
        gaps=gaps,
        roots=roots,
        untried=(*_list_untried(swept.arms, texts), *([f"states after {SWEEP_S:.0f} s"] if swept.is_cut else ())),
        notes=() if gaps else (*_list_types(traced, names), *filter(None, [constants]), *_list_notes(swept.found)),
        names=names,
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True)
class _Wide:
    """A program in float64 that also returns the ways of its watched conditions."""

    text: str
    watched: Sequence[Condition]
    alone: frozenset[int]  # numbers of the conditions that the other program lacks
    hidden: int  # of these, in parts whose ways cannot be returned


class _Swept:
    """Both functions in float64 at all states: the measured distances."""

    def __init__(self, traced: Sequence[TracedFunction], arms: tuple[SweptArm, SweptArm], first: list[Any]):
        self.traced, self.arms, self.first = traced, arms, first
        slots = traced[1].outputs
        self.sweep = FunctionSweep(
            step=traced[0], arms=arms, translate=list, slots=slots,
            sources=[ArrayOrigin((n,), lambda taken: taken[0]) for n in range(len(slots))],
            first=first, steps=0, plain=(),
        )  # fmt: skip
        began = time.monotonic()
        self.found = self.sweep.run(SWEEP_S)
        self.is_cut = time.monotonic() - began > SWEEP_S

    def find_difference(self) -> tuple[tuple[Gap, ...], tuple[Root, ...]]:
        """Return what differs at the first state with more than rounding, and where the difference begins."""
        looked_at = 0
        for state in self.found:
            gaps = [] if state["state"] in HARMLESS else _gaps_of(state)
            if not gaps:
                continue
            looked_at += 1
            if looked_at > CONFIRMED:
                break
            try:
                given = self.sweep.arguments_of(state["state"])
                sides = [evaluate(one.closed, given) for one in self.traced]
            except Exception:  # an operation that cannot be evaluated alone: no line is named
                return _as_gaps(state, gaps), ()
            gaps = [
                (n, size) for n, size in gaps
                if state["results"][n].get("float64") is None or size == inf
                or not are_rounding(sides[0], sides[1], n, state["results"][n]["float64"])
            ]  # fmt: skip
            if gaps:
                return _as_gaps(state, gaps), find_roots(sides[0], sides[1], [n for n, _ in gaps])
        return (), ()


def _without_rounded_constants(swept: _Swept, texts: Sequence[_Wide], gaps: Sequence[Gap]) -> _Swept | None:
    """Return the comparison with constants before their rounding, if they are all that differs; else None."""
    places = {slot.meaning: n for n, slot in enumerate(swept.traced[1].outputs)}
    left, right = (Constants(text.text, one.devices, CPU) for text, one in zip(texts, swept.traced, strict=True))
    shifts = find_shifts((left, right), swept.sweep.arguments_of(gaps[0].state), [places[gap.name] for gap in gaps])
    if shifts is None:
        return None
    arms = [
        SweptArm(RunnableProgram(side.rewrite(its), side.devices, quickly=True, platform=CPU), text.watched)
        for side, its, text in zip((left, right), shifts, texts, strict=True)
    ]
    again = _Swept(swept.traced, (arms[0], arms[1]), swept.first)
    return None if any(_gaps_of(state) for state in again.found if state["state"] not in HARMLESS) else again


def trace_both(
    old: Callable[..., Any], new: Callable[..., Any], args: Sequence[Any], names: tuple[str, str], *, grad: bool
) -> tuple[tuple[TracedFunction, TracedFunction], tuple[list[Any], list[Any]], list[Any]]:
    """Return both functions' programs, the cotangents of each, and the arguments' arrays. Raises CannotCompare."""
    given = read_arguments(old, args)
    left, left_cotangents = trace(names[0], old, given, grad=grad)
    right, right_cotangents = trace(names[1], new, given, grad=grad)
    shapes = [[(slot.meaning, slot.shape) for slot in one.outputs] for one in (left, right)]
    if len(shapes[0]) != len(shapes[1]):
        raise CannotCompare(f"{names[0]} returns {_count(shapes[0])}, and {names[1]} {_count(shapes[1])}")
    for (meaning, mine), (_, theirs) in zip(*shapes, strict=True):
        if mine != theirs:
            raise CannotCompare(f"{meaning} has the shape {mine} in {names[0]}, and {theirs} in {names[1]}")
    return (left, right), (left_cotangents, right_cotangents), given.values


def _count(results: Sequence[Any]) -> str:
    return f"{len(results)} array{'s'[: len(results) != 1]}"


def program_of(text: str) -> str:
    """Return a lowered program without locations and names."""
    with mlir_context():
        text = str(parse_program(text).operation.get_asm(enable_debug_info=False))
    text = re.sub(r'jax\.result_info = "[^"]*"', "", text)
    numbers: dict[str, str] = {}
    return re.sub(r"@[\w.$-]+", lambda name: numbers.setdefault(name[0], f"@{len(numbers)}"), text)


def _widen(traced: Sequence[TracedFunction], names: Sequence[str]) -> list[_Wide]:
    texts, conditions = [], []
    for name, one in zip(names, traced, strict=True):
        try:
            with mlir_context():
                texts.append(widen_program(one.text, with_places=True))
                conditions.append(list_conditions(texts[-1]))
        except ValueError as error:
            reason = str(error).replace("the step", "it")
            raise CannotCompare(f"{name} has no float64 form: {reason}") from None
    found = []
    for text, mine, other in zip(texts, conditions, reversed(conditions), strict=True):
        own = find_own_conditions(mine, other)
        chosen = list(mine) if len(mine) <= SHARED else own
        try:
            with mlir_context():
                exposed, watched = expose_conditions(text, chosen)
        except (ir.MLIRError, ValueError):
            exposed, watched = text, []
        alone = frozenset(one.number for one in own)
        found.append(_Wide(exposed, watched, alone, len(alone - {one.number for one in watched})))
    return found


def _compile(
    traced: Sequence[TracedFunction], texts: Sequence[_Wide], names: Sequence[str]
) -> list[tuple[RunnableProgram, RunnableProgram]]:
    """Return each function's program, as it is and in float64."""
    with in_user_terms(" or ".join(names), "compiled for a processor"), mlir_context():
        plain = [as_run(one.text) for one in traced]
    with in_user_terms(" or ".join(names), "compiled for a processor"), ThreadPoolExecutor(4) as pool:
        made = [
            (
                pool.submit(RunnableProgram, text, one.devices, platform=CPU),
                pool.submit(RunnableProgram, wide.text, one.devices, quickly=True, platform=CPU),
            )
            for text, wide, one in zip(plain, texts, traced, strict=True)
        ]
        return [(a.result(), b.result()) for a, b in made]


def _refuse_nan(traced: Sequence[TracedFunction], exact: Sequence[Sequence[Any]], names: Sequence[str]) -> None:
    for name, one, results in zip(names, traced, exact, strict=True):
        for slot, value in zip(one.outputs, results, strict=True):
            if slot.is_float and np.isnan(value).any():
                raise CannotCompare(f"{name} returns NaN at the given arguments ({slot.meaning}): give others")


def _measure_rounding(
    traced: Sequence[TracedFunction],
    programs: Sequence[tuple[RunnableProgram, RunnableProgram]],
    given: Sequence[Sequence[Any]],
    exact: Sequence[Sequence[Any]],
    kind: str,
) -> Rounding:
    errors = []
    for one, (plain, _), its_given, wide in zip(traced, programs, given, exact, strict=True):
        parts = [
            (distance(*_finite(mine, its)) or 0.0, distance(*_finite(its, np.zeros_like(its))) or 0.0)
            for slot, mine, its in zip(one.outputs, plain(its_given), wide, strict=True)
            if slot.is_float
        ]
        errors.append(hypot(*(gap for gap, _ in parts)) / (hypot(*(norm for _, norm in parts)) or 1.0))
    return Rounding(errors[0], errors[1], kind)


def _finite(left: Any, right: Any) -> tuple[Any, Any]:
    both = np.isfinite(np.asarray(left, np.float64)) & np.isfinite(right)
    return np.asarray(left, np.float64)[both], right[both]


def _as_gaps(state: dict[str, Any], gaps: Sequence[tuple[int, float]]) -> tuple[Gap, ...]:
    ordered = sorted(gaps, key=lambda gap: -gap[1])
    return tuple(Gap(state["results"][n]["meaning"], size, state["state"]) for n, size in ordered)


def _gaps_of(state: dict[str, Any]) -> list[tuple[int, float]]:
    """Return index and relative size of each result that differs by more than rounding at a state."""
    name, rows = state["state"], state["results"]
    share = SAME if name == GIVEN else DRAWN if name.startswith(("drawn", "integers", "counter")) else FAR
    found = []
    for n, (row, size) in enumerate(zip(rows, _norms(rows), strict=True)):
        if "finite" not in row:
            if row["as_run"] and not row.get("noise", 0.0):
                found.append((n, row["as_run"] / row["size"]))
        elif row["finite"][0] != row["finite"][1]:
            if share != FAR:
                found.append((n, inf))
        elif row["float64"] > share * size + NOISE * row.get("noise", 0.0):
            found.append((n, row["float64"] / (size or 1.0)))
    return found


def _sizes(state: dict[str, Any]) -> list[float]:
    rows = state["results"]
    return [row["float64"] / (size or 1.0) for row, size in zip(rows, _norms(rows), strict=True) if "float64" in row]


def _norms(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Return each result's norm, at least a share of that of all results, or of all gradients."""
    groups: dict[bool, float] = {}
    for row in rows:
        key = row["role"] == GRADIENT
        groups[key] = hypot(groups.get(key, 0.0), row["norm"] or 0.0)
    return [max(row["norm"] or 0.0, GROUP_SHARE * groups[row["role"] == GRADIENT]) for row in rows]


def _list_untried(arms: Sequence[SweptArm], texts: Sequence[_Wide]) -> list[str]:
    """Return the lines of conditions without a counterpart that went one way in every state."""
    alone = [[one for one in text.watched if one.number in text.alone] for text in texts]
    kinds = [Counter((*one.constants, one.end) for one in side) for side in alone]
    found = []
    for n, arm in enumerate(arms):
        new, own = kinds[n] - kinds[1 - n], texts[n].alone
        left = [one for one in arm.one_sided() if one.number in own and new[(*one.constants, one.end)]]
        found += list(dict.fromkeys(_say_condition(one) for one in left if not _is_harmless(one)))
    if hidden := sum(text.hidden for text in texts):
        found.append(f"{hidden} conditions that cannot be watched")
    return found


def _is_harmless(condition: Condition) -> bool:
    """Return whether only ties, infinite values or the largest integers reach the other side of a condition."""
    head = condition.fingerprint.partition("](")[0]
    is_tie = "comparison_type FLOAT" in head and head.endswith(("direction EQ>", "direction NE>"))
    is_largest = any(value in LARGEST for value in condition.constants)
    return is_tie or is_largest or any(_INFINITE.match(operand) for operand in _operands(condition.fingerprint))


def _operands(fingerprint: str) -> list[str]:
    """Return the operands in a fingerprint `name[attributes](operand,operand)`."""
    found, depth = [""], 0
    for char in fingerprint.partition("](")[2]:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth < 0:
            break
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    return found


def _say_condition(condition: Condition) -> str:
    return f"{shorten(condition.file)}:{condition.line}" if condition.file else "a condition without a line"


def _list_types(traced: Sequence[TracedFunction], names: Sequence[str]) -> Iterator[str]:
    """Yield a note for each result that has another type in the new function."""
    for left, right in zip(*(one.outputs for one in traced), strict=True):
        if left.type != right.type and left.role == RESULT:
            yield f"{right.meaning} is {left.type} in {names[0]}, and {right.type} in {names[1]}"


def _list_notes(found: Sequence[dict[str, Any]]) -> list[str]:
    notes = [f"they differ at {state['state']}" for state in found if state["state"] in HARMLESS and _gaps_of(state)]
    for state in found:
        sides = {tuple(row["finite"]) for row in state["results"] if "finite" in row}
        if state["state"] not in HARMLESS and any(left != right for left, right in sides):
            return [*notes, f"only one of both is finite at {state['state']}"]
    return notes


def _width(kind: str) -> int:
    return next((n for n, name in enumerate(_NARROW) if kind.startswith(name)), len(_NARROW))
