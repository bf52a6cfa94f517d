"""Compares two float64 steps at states that no run reached: counters, weights, moments and batches far from a run's.

A branch that depends on a step's number, a norm or a token shows only where its condition turns. Each state costs
milliseconds, because both programs are compiled already.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from maxview_probe.evaluate.conditions import Condition, read_ways
from maxview_probe.evaluate.limits import SAME
from maxview_probe.evaluate.match import ArrayOrigin
from maxview_probe.evaluate.recorded_step import Slot
from maxview_probe.evaluate.run_program import RunnableProgram, run_at_once

GRID = (0, 1, 2, 5)  # counters, and these times powers of ten
FURTHEST, AT_LEAST = 10, 1_000_000  # counters reach this many times the planned steps, and this number
MAX_CONSTANTS = 12  # of comparisons, whose neighbourhood the counters visit
SCALES = (1e-3, 10.0, 1e3)  # of the weights
SEARCHED = (1e-6, 1e-5, 1e-4, 1e-2, 1e-1, 1e2, 1e4, 1e5, 1e6)  # further ones, if a condition went one way only
ALONE, MAX_ALONE = (1e2, 1e4), 40  # scales of single arrays of weights, and how many of these
LAST_BIT = 2.0**-52
AS_RUN = ("weights × 10", "weights × 1000")  # states that show the range of a narrow type

Arrays: TypeAlias = list[Any]


class HasInputs(Protocol):
    """A recorded step, or another program."""

    inputs: list[Slot]


@dataclass
class SweptArm:
    """One arm's float64 step, and the ways that its own conditions have gone."""

    program: RunnableProgram
    conditions: Sequence[Condition]  # those that the other arm lacks, whose flags the program returns last
    ways: dict[int, set[bool]] = field(default_factory=dict)

    def run(self, given: Arrays) -> Arrays:
        """Return the step's results; note the ways of the conditions."""
        results = self.program(given)
        count = len(results) - 2 * len(self.conditions)
        read_ways(self.conditions, results[count:], self.ways)
        return results[:count]

    def one_sided(self) -> list[Condition]:
        """Return the conditions that have not gone both ways, and the selections whose own side was not taken."""
        return [one for one in self.conditions if not one.wanted <= self.ways.get(one.number, set())]


@dataclass
class Sweep:
    """Both arms, and how the candidate's arguments and results are made from or compared with the baseline's."""

    step: HasInputs  # of the baseline
    arms: tuple[SweptArm, SweptArm]
    translate: Callable[[Arrays], Arrays]  # the baseline's arguments → the candidate's
    slots: Sequence[Slot]  # the candidate's results
    sources: Sequence[ArrayOrigin | None]  # how each of them is made from the baseline's results
    first: Arrays  # the baseline's first arguments in float64
    steps: int  # planned
    plain: Sequence[tuple[RunnableProgram, Sequence[Any]]]  # of each arm, as run: the program and its arguments' types
    # arguments of the baseline that keep their values: only one arm has them, as constants
    resting: frozenset[int] = frozenset()

    def run(self, limit_s: float) -> list[dict[str, Any]]:
        """Return the measured differences at each state; no state is begun after `limit_s` seconds."""
        began, found = time.monotonic(), list[dict[str, Any]]()
        for name, given in self._states():
            if time.monotonic() - began > limit_s:
                break
            before = self._one_sided()
            rows = self._measure(given)
            turned = [vars(one) for one in before if one not in self._one_sided()]
            found.append({"state": name, "results": rows, "turned": turned})
            if name in AS_RUN:
                found[-1]["as_run"] = self._are_finite_as_run(given)
        return found

    def _are_finite_as_run(self, given: Arrays) -> list[bool]:
        """Return for each arm whether its step, as the trainer runs it, has only finite results."""
        finite = []
        for (program, types), arguments in zip(self.plain, (given, self.translate(given)), strict=True):
            narrow = [one.astype(kind) for one, kind in zip(arguments, types, strict=True)]
            finite.append(all(bool(np.isfinite(np.asarray(one, np.float64)).all()) for one in program(narrow)))
        return finite

    def _one_sided(self) -> list[Condition]:
        return [one for arm in self.arms for one in arm.one_sided()]

    def _states(self) -> Iterator[tuple[str, Arrays]]:
        constants = sorted({
            int(value) for arm in self.arms for one in arm.conditions for value in one.constants
            if value == value and 2 < abs(value) < 1e9 and float(value).is_integer()
        })[:MAX_CONSTANTS]  # fmt: skip
        numbers = sorted({number for value in constants for number in (value - 1, value, value + 1) if number >= 0})
        numbers += [number for number in self._grid() if number not in numbers]
        if self._counters():
            for number in numbers:
                yield f"counter {number:,}", self._with_counters(number)
        for scale in (0.0, *SCALES):
            yield f"weights × {scale:g}", self._scaled("parameter", scale)
        for scale in (1.0, 10.0):
            yield f"weights drawn anew{'' if scale == 1 else f' × {scale:g}'}", self._drawn(scale)
        yield from self._batches()
        yield "a weight that is NaN", self._broken()
        for n in self._chosen("parameter")[:MAX_ALONE]:  # all together, a normalisation may cancel the scale
            for scale in ALONE if self._one_sided() else ():
                given = list(self.first)
                given[n] = given[n] * scale
                yield f"{self.step.inputs[n].meaning} × {scale:g}", given
        for scale in SEARCHED:
            if not self._one_sided():
                return
            yield f"weights × {scale:g}", self._scaled("parameter", scale)
            yield f"moments × {scale:g}", self._scaled("optimizer", scale)
            yield f"floats of the batch × {scale:g}", self._scaled("data", scale)
            if scale > 1 and self._counters():
                yield f"counter {int(scale):,}", self._with_counters(int(scale))

    def _grid(self) -> Iterator[int]:
        furthest = max(FURTHEST * self.steps, AT_LEAST)
        yield 0
        unit = 1
        while unit <= furthest:
            yield from (number * unit for number in GRID[1:] if number * unit <= furthest)
            unit *= 10

    def _counters(self) -> list[int]:
        return [
            n for n, slot in enumerate(self.step.inputs)
            if slot.shape == () and not slot.is_float and slot.role == "counter" and slot.type != "i1"
            and n not in self.resting
        ]  # fmt: skip

    def _with_counters(self, number: int) -> Arrays:
        given = list(self.first)
        for n in self._counters():
            largest = np.iinfo(given[n].dtype).max
            given[n] = np.asarray(min(number, largest), given[n].dtype)
        return given

    def _chosen(self, role: str) -> list[int]:
        return [
            n for n, slot in enumerate(self.step.inputs)
            if slot.role == role and slot.is_float and n not in self.resting
        ]  # fmt: skip

    def _scaled(self, role: str, scale: float) -> Arrays:
        given = list(self.first)
        for n in self._chosen(role):
            given[n] = given[n] * scale
        return given

    def _drawn(self, scale: float) -> Arrays:
        random, given = np.random.default_rng(0), list(self.first)
        for n in self._chosen("parameter"):
            given[n] = random.standard_normal(given[n].shape) * (scale * (float(np.std(given[n])) or 1.0))
        return given

    def _batches(self) -> Iterator[tuple[str, Arrays]]:
        data = [n for n, slot in enumerate(self.step.inputs) if slot.role == "data" and len(slot.shape) > 1]
        if not data:
            return
        changes: dict[str, Callable[[Any], Any]] = {
            "a batch of one repeated token": lambda value: np.full_like(value, value.flat[0]),
            "a batch of zeros": np.zeros_like,
            "a batch with its last row only": _keep_last_row,
        }
        if tokens := self._tokens(data):
            changes[f"a batch of {tokens:,} different tokens"] = lambda value: (
                np.resize(np.arange(tokens), value.shape).astype(value.dtype)
                if np.issubdtype(value.dtype, np.integer) else value
            )  # fmt: skip
        for name, change in changes.items():
            given = list(self.first)
            for n in data:
                given[n] = change(given[n])
            yield name, given

    def _tokens(self, data: Sequence[int]) -> int:
        """Return the size of the vocabulary: the smallest length of an axis of the weights above all tokens; else 0."""
        largest = max((int(self.first[n].max()) for n in data if not self.step.inputs[n].is_float), default=0)
        lengths = {length for n in self._chosen("parameter") for length in self.step.inputs[n].shape}
        return min((length for length in lengths if length > largest > 1), default=0)

    def _broken(self) -> Arrays:
        given = list(self.first)
        for n in self._chosen("parameter"):
            if given[n].size:
                given[n] = given[n].copy()
                given[n].flat[0] = np.nan
        return given

    def _measure(self, given: Arrays) -> list[dict[str, Any]]:
        """Return a row per common result: its size, the arms' distance, and how far a last bit of the weights moves it.

        Distances are over the values that are finite in both.
        """
        theirs_given = self.translate(given)
        devices = max(len(arm.program.devices) for arm in self.arms)
        left, right = run_at_once(
            [partial(self.arms[0].run, given), partial(self.arms[1].run, theirs_given)], devices=devices
        )
        noisy: Arrays | None = None
        rows = []
        for n, (slot, source) in enumerate(zip(self.slots, self.sources, strict=True)):
            if source is None or slot.role == "random numbers":
                continue
            theirs, ours = source.take(left), right[n]
            row: dict[str, Any] = {
                "role": slot.role,
                "meaning": slot.meaning,
                "size": int(ours.size),
                "type": slot.type,
            }
            row |= _compare(slot, theirs, ours)
            if (row["float64"] > SAME * row["norm"]) if slot.is_float else row["as_run"]:
                noisy = noisy or self.arms[0].run(self._perturbed(given))
                row["noise"] = _compare(slot, theirs, source.take(noisy))["float64" if slot.is_float else "as_run"]
            rows.append(row)
        return rows

    def _perturbed(self, given: Arrays) -> Arrays:
        random, found = np.random.default_rng(1), list(given)
        for n in self._chosen("parameter"):
            found[n] = found[n] * (1 + LAST_BIT * random.standard_normal(found[n].shape))
        return found


def _keep_last_row(value: Any) -> Any:
    found = np.zeros_like(value)
    found[-1] = value[-1]
    return found


def _compare(slot: Slot, left: Any, right: Any) -> dict[str, Any]:
    if not slot.is_float:
        different = int((np.asarray(left, np.int64) != np.asarray(right, np.int64)).sum())
        return {"norm": None, "as_run": float(different)}
    finite = [bool(np.isfinite(one).all()) for one in (left, right)]
    common = np.isfinite(left) & np.isfinite(right) if not all(finite) else ...
    with np.errstate(all="ignore"):
        kept = [np.asarray(one, np.float64)[common].ravel() for one in (left, right)]
        norm, gap = (float(np.linalg.norm(one)) for one in (kept[0], kept[1] - kept[0]))
    if not (np.isfinite(norm) and np.isfinite(gap)):  # beyond the largest number
        norm, gap = 0.0, 0.0
    return {"norm": norm, "float64": gap, "finite": finite}
