"""Finds the rows of a step table that contradict the rows around them: a number that lost a digit, and is one still.

MaxText computes both of its rates from the seconds that it prints, and the perplexity from its loss, so that over the
rows of a log seconds × rate is one number and perplexity / exp(loss) another, within the last printed decimal
(`metric_logger.py`, `record_train_metrics`). Nothing is judged in a log whose rows do not hold to that, and never what
may be so for another reason: rows of another configuration come several at a time, or where the steps start anew.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.scrape.digits import Mask

FEWEST = 8  # rows that must show what is usual
HOLDING = 0.85  # of the rows; fewer, and the log's numbers are computed in another way
ROUNDING = 0.0005  # three decimals
SLACK = 4  # times what rounding explains
MATERIAL = 0.05  # of the constant: a digit more or less, or a point elsewhere, moves a number further than that
FEW, RARE = 3, 0.02  # so many rows, or this part of them: more are no damage

SAMPLE = 10_000  # rows that tell what is usual
BLOCK = 4_096  # rows at a time: what is made of them stays in the caches
EVERYTHING = -math.inf, math.inf
# numbers and what is computed from them: seconds and the rates of it, the loss and its perplexity
PAIRS = (
    ("seconds", "tflops_per_device"),
    ("seconds", "tokens_per_s_per_device"),
    ("lm_loss", "perplexity"),
)

type Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Invariant:
    """Two columns (rows,), and what makes of them a value that should be the same in every row, and its margin: how far
    rounding can move it."""

    one: Floats
    other: Floats
    compute: Callable[[Floats, Floats], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Agreement:
    """Whether rows that follow one another agree. Told piece by piece of a table, while each is in the caches."""

    first: int
    last: int
    in_order: bool  # each step is the one after that before it
    # of each pair, between which bounds a number lies that is within the margin of every row
    bounds: Mapping[tuple[str, str], tuple[float, float]]

    def with_next(self, other: "Agreement") -> "Agreement":
        """That of these rows and those that follow them."""
        bounds = dict(self.bounds)
        for pair, (least, most) in other.bounds.items():
            own = bounds.get(pair, EVERYTHING)
            bounds[pair] = max(least, own[0]), min(most, own[1])
        in_order = self.in_order and other.in_order and other.first == self.last + 1
        return Agreement(self.first, other.last, in_order, bounds)

    def holds(self, pair: tuple[str, str]) -> bool:
        """Whether some number lies within the margin of every row."""
        least, most = self.bounds.get(pair, EVERYTHING)
        return least <= most


def agreement_of(steps: pl.DataFrame) -> Agreement:
    """How far the rows of a step table, one or more, agree."""
    number = steps["step"].to_numpy()
    bounds = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for pair, invariant in _invariants(steps):
            least, most = EVERYTHING
            for begin in range(0, len(number), BLOCK):
                part = slice(begin, begin + BLOCK)
                value, margin = invariant.compute(invariant.one[part], invariant.other[part])
                # what is no number says nothing of the others
                least = float(np.fmax.reduce(value - margin, initial=least))
                most = float(np.fmin.reduce(value + margin, initial=most))
            bounds[pair] = least, most
    return Agreement(int(number[0]), int(number[-1]), bool((np.diff(number) == 1).all()), bounds)


def find_contradicting(steps: pl.DataFrame, agreement: Agreement) -> Mask:
    """(rows,): the rows of a step table of MaxText's dialect that the others contradict.

    `agreement` is that of these rows and of any others: what holds there is not looked at again.
    """
    found = np.zeros(steps.height, np.bool_)
    doubtful = [pair for pair in PAIRS if not agreement.holds(pair)]
    if steps.height < FEWEST or (agreement.in_order and not doubtful):
        return found
    number = steps["step"].to_numpy()
    order = np.diff(number)
    found |= _out_of_order(number, order)
    inside = np.zeros(steps.height, np.bool_)  # between rows of other steps, in order
    inside[1:-1] = (order[:-1] > 0) & (order[1:] > 0)
    for pair, invariant in _invariants(steps):
        if pair in doubtful:
            found |= _deviating(invariant) & inside
    return found if found.sum() <= max(FEW, RARE * steps.height) else np.zeros(steps.height, np.bool_)


def _out_of_order(number: NDArray[np.int64], order: NDArray[np.int64]) -> Mask:
    """Rows that are not the step between their neighbours, which lie two steps apart."""
    odd = np.zeros(len(number), np.bool_)
    if not (order == 1).all():
        odd[1:-1] = (number[2:] - number[:-2] == 2) & (order[:-1] != 1)
    return odd


def _invariants(steps: pl.DataFrame) -> Iterator[tuple[tuple[str, str], Invariant]]:
    """What should be the same in every row, by the columns that it is made of."""
    for pair in PAIRS:
        one, other = (_floats(steps, column) for column in pair)
        if one is not None and other is not None:
            yield pair, Invariant(one, other, _base if pair[1] == "perplexity" else _work)


def _work(seconds: Floats, rate: Floats) -> tuple[Floats, Floats]:
    return seconds * rate, (seconds + rate + ROUNDING) * ROUNDING


def _base(loss: Floats, perplexity: Floats) -> tuple[Floats, Floats]:
    scale = np.exp(-loss)
    value = perplexity * scale
    return value, (value + scale) * (ROUNDING * math.exp(ROUNDING))


def _floats(steps: pl.DataFrame, column: str) -> Floats | None:
    if column not in steps.columns or not steps[column].dtype.is_numeric():
        return None
    return steps[column].cast(pl.Float64).to_numpy()


def _deviating(invariant: Invariant) -> Mask:
    """The rows that differ from what the rows hold to, beside one that does hold to it and one that does not differ as
    much: a digit near the end of its number may be wrong there too, or the number may be none."""
    none = np.zeros(len(invariant.one), np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        value, margin = invariant.compute(invariant.one, invariant.other)
        known = np.isfinite(value)
        if known.sum() < FEWEST:
            return none
        usual = np.median(value[known][:: 1 + len(value) // SAMPLE])
        apart = np.abs(value - usual)
        holds = apart <= margin * 2
        if holds.sum() < HOLDING * known.sum():
            return none
        deviates = known & (apart > np.maximum(SLACK * margin, MATERIAL * abs(usual)))
    near = ~deviates
    deviates[1:-1] &= near[:-2] & near[2:] & (holds[:-2] | holds[2:])
    deviates[[0, -1]] = False
    return deviates
