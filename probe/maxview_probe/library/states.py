"""Arguments beside the given ones, at which two functions are compared."""

from collections.abc import Callable, Iterator
from math import hypot
from typing import Any

import numpy as np

from maxview_probe.evaluate.sweep import SEARCHED, Arrays, Sweep

GIVEN = "as given"
ZERO, TIES, BROKEN = "all × 0", "tied values", "a value that is NaN"
HARMLESS = (ZERO, TIES, BROKEN)  # states in which functions that are equal almost everywhere may differ
SCALES = (1e-3, 10.0, 1e3)
CLEAR = 1e-2  # share of the norm of all results: after such a difference at the given arguments no state is needed
FEW = 2  # an array of so few different values is a mask: drawn anew, it has the same values


class FunctionSweep(Sweep):
    """Compares at the given arguments first, then at others of the same kinds.

    Arrays without a negative number keep none, arrays between 0 and 1 stay there, and masks stay masks.
    """

    every = False  # also states for conditions that have gone both ways
    differs = False  # clearly, at the last state

    def arguments_of(self, name: str) -> Arrays:
        """Return the arguments of a state. They are made again: all states at once may not fit into memory."""
        self.every = True
        try:
            return next(given for state, given in self._states() if state == name)
        finally:
            self.every = False

    def _states(self) -> Iterator[tuple[str, Arrays]]:
        yield GIVEN, list(self.first)
        if self.differs and not self.every:
            return
        yield "drawn", self._changed(_Drawn(0))
        yield from self._batches()
        yield "drawn again", self._changed(_Drawn(1))
        for scale in SCALES:
            yield f"all × {scale:g}", self._changed(_Scaled(scale))
        yield TIES, self._changed(_round_to_few)
        yield ZERO, self._changed(_Scaled(0.0))
        if self._counters():
            for number in self._grid():
                yield f"counter {number:,}", self._with_counters(number)
        yield BROKEN, self._broken()
        for n in self._chosen("parameter"):
            for scale in (1e-3, 1e2, 1e4, -1.0) if self.every or self._one_sided() else ():
                given = list(self.first)
                given[n] = _Scaled(scale)(given[n])
                yield f"{self.step.inputs[n].meaning} × {scale:g}", given
        for scale in SEARCHED:
            if not (self.every or self._one_sided()):
                return
            for signed in (scale, -scale):
                yield f"all × {signed:g}", self._changed(_Scaled(signed))

    def _measure(self, given: Arrays) -> list[dict[str, Any]]:
        rows = super()._measure(given)
        gap, norm = (hypot(*(row.get(key) or 0.0 for row in rows)) for key in ("float64", "norm"))
        self.differs = gap > CLEAR * norm
        return rows

    def _changed(self, change: Callable[[Any], Any]) -> Arrays:
        given = list(self.first)
        for n in self._chosen("parameter"):
            given[n] = change(given[n])
        return given

    def _batches(self) -> Iterator[tuple[str, Arrays]]:
        """Yield the given arguments with integers drawn anew from the given ones, and with one integer repeated."""
        data = [
            n for n, slot in enumerate(self.step.inputs) if slot.role == "data" and slot.shape and not slot.is_float
        ]
        for name, change in (
            ("integers drawn from the given ones", _Drawn(0)),
            ("one integer repeated", _repeat_first),
        ):
            if data:
                given = list(self.first)
                for n in data:
                    given[n] = change(given[n]).astype(given[n].dtype)
                yield name, given


class _Scaled:
    def __init__(self, scale: float):
        self.scale = scale

    def __call__(self, value: Any) -> Any:
        keeps_sign = bool(value.size and value.min() >= 0)
        return value if _is_bounded(value) else value * (abs(self.scale) if keeps_sign else self.scale)


class _Drawn:
    def __init__(self, seed: int):
        self.seed = seed

    def __call__(self, value: Any) -> Any:
        random = np.random.default_rng(self.seed)
        if not value.size:
            return value
        if value.dtype.kind != "f" or len(np.unique(value[:1000] if value.ndim else value)) <= FEW:
            return random.choice(value.ravel(), value.shape)
        if _is_bounded(value):
            return random.uniform(value.min(), value.max(), value.shape)
        drawn = random.standard_normal(value.shape) * (float(np.std(value)) or float(np.abs(value).max()) or 1.0)
        return np.abs(drawn) if value.min() >= 0 else drawn


def _is_bounded(value: Any) -> bool:
    """Return whether an array may hold probabilities or a mask."""
    return bool(value.size and value.min() >= 0 and value.max() <= 1)


def _round_to_few(value: Any) -> Any:
    unit = float(np.std(value)) or 1.0
    return value if _is_bounded(value) or not value.size else np.round(value / unit) * unit


def _repeat_first(value: Any) -> Any:
    return np.full_like(value, value.flat[0]) if value.size else value
