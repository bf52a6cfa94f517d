"""Times two functions in turns, as they run here, until their difference is decided or the time is over."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import expm1, log1p
from typing import Any

import jax
import numpy as np

from maxview_probe.evaluate.recorded_step import mlir_context, parse_program, read_device_count
from maxview_probe.library.errors import CannotCompare, in_user_terms, name_functions
from maxview_probe.library.traced import read_arguments
from maxview_probe.turns.paired_times import Interval, Rule
from maxview_probe.turns.take_turns import Broken, Duet, make_draws
from maxview_probe.turns.timed_program import OutOfMemory, TimedProgram

CHANCE, LEAST = 0.01, 0.0  # of an interval that misses the true difference; the smallest difference of interest


@dataclass(frozen=True)
class Times:
    """The difference of two functions' times, and its 99 % interval; as shares: -0.012 is 1.2 % faster."""

    difference: float
    low: float
    high: float
    old_s: float  # median seconds of one call
    new_s: float
    calls: int  # that were timed, of both
    names: tuple[str, str] = ("old", "new")

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        """Return the difference with its interval: `-1.2 % (-1.6 … -0.9)`."""
        return f"{100 * self.difference:+.1f} % ({100 * self.low:+.1f} … {100 * self.high:+.1f})"


@dataclass
class _Step:
    """What a `TimedProgram` needs."""

    text: str
    devices: int
    first: list[Any]
    inputs: Sequence[Any] = ()
    batches: int = 1

    @property
    def fed(self) -> dict[int, int]:
        """No result is an argument of the next call."""
        return {}

    def batch(self, number: int) -> dict[int, Any]:
        """Return index → array of the arguments."""
        return dict(enumerate(self.first))


class _TimedFunction(TimedProgram):
    def __init__(self, step: _Step):
        self._prepare(step)

    def _run(self) -> list[Any]:
        results = super()._run()
        if self.devices[0].platform == "cpu":  # calls that need nothing of each other would run at the same time
            jax.block_until_ready(results)
        return results


def in_turns(old: Callable[..., Any], new: Callable[..., Any], *args: Any, seconds: float = 10.0) -> Times:
    """Return the difference of two functions' times on this machine's device, timed in turns.

    The turns end when the 99 % interval leaves out 0, or after about `seconds`, without the first compiles. Arguments
    and errors are those of `same_function`; compiled are the functions as a whole. Waits for a processor are left out.
    """
    __tracebackhide__ = True
    names = name_functions(old, new)
    given = read_arguments(old, args)
    steps = [_lower(name, function, given) for name, function in zip(names, (old, new), strict=True)]
    try:
        duet = Duet([_TimedFunction(step) for step in steps], chance=random.Random(0))
        found = make_draws(duet, Rule(CHANCE, log1p(0.0), LEAST), seconds, lambda text: None)
    except Broken as error:
        raise CannotCompare(f"{names[error.arm]}: {error}") from None
    except (ValueError, OutOfMemory) as error:
        raise CannotCompare(str(error)) from None
    wall: Interval = found.wall
    return Times(
        expm1(wall.effect), expm1(min(wall.low, 50.0)), expm1(min(wall.high, 50.0)),
        *found.step_s, calls=sum(found.steps), names=names,
    )  # fmt: skip


def _lower(name: str, function: Callable[..., Any], given: Any) -> _Step:
    def flat(*arrays: Any) -> Any:
        return function(*given.build(arrays))

    with in_user_terms(name, "lowered for this device"):
        text = jax.jit(flat, keep_unused=True).lower(*given.shapes).as_text()
    if "callback" in text and "custom_call" in text:
        raise CannotCompare(f"{name} calls Python: its time is not that of a program")
    with mlir_context():
        devices = read_device_count(parse_program(text))
    return _Step(text, devices, [np.asarray(one) for one in given.values])
