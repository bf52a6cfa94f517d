"""Finds the rows of a step table that contradict the rows around them: a number that lost a digit, and is one still.

MaxText computes both of its rates from the seconds that it prints, and the perplexity from its loss, so that over the
rows of a log seconds × rate is one number and perplexity / exp(loss) another, within the last printed decimal
(`metric_logger.py`, `record_train_metrics`). Nothing is judged in a log whose rows do not hold to that, and never what
may be so for another reason: rows of another configuration come several at a time, or where the steps start anew.
"""

from collections.abc import Callable
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
BLOCK = 16_384  # rows at a time: what is made of them stays in the caches

type Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Invariant:
    """Two columns (rows,), and what makes of them a value that should be the same in every row, and its margin: how far
    rounding can move it."""

    one: Floats
    other: Floats
    compute: Callable[[Floats, Floats], tuple[Floats, Floats]]

    def holds_everywhere(self) -> bool:
        """Whether some number lies within the margin of every row."""
        least, most = -np.inf, np.inf
        for begin in range(0, len(self.one), BLOCK):
            value, margin = self.compute(self.one[begin : begin + BLOCK], self.other[begin : begin + BLOCK])
            # what is no number says nothing of the others
            least = float(np.fmax.reduce(value - margin, initial=least))
            most = float(np.fmin.reduce(value + margin, initial=most))
            if not least <= most:
                return False
        return True


def find_contradicting(steps: pl.DataFrame) -> Mask:
    """(rows,): the rows of a step table of MaxText's dialect that the others contradict."""
    found = np.zeros(steps.height, np.bool_)
    if steps.height < FEWEST:
        return found
    number = steps["step"].to_numpy()
    order = np.diff(number)
    found |= _out_of_order(number, order)
    inside = np.zeros(steps.height, np.bool_)  # between rows of other steps, in order
    inside[1:-1] = (order[:-1] > 0) & (order[1:] > 0)
    for invariant in _invariants(steps):
        found |= _deviating(invariant) & inside
    return found if found.sum() <= max(FEW, RARE * steps.height) else np.zeros(steps.height, np.bool_)


def _out_of_order(number: NDArray[np.int64], order: NDArray[np.int64]) -> Mask:
    """Rows that are not the step between their neighbours, which lie two steps apart."""
    odd = np.zeros(len(number), np.bool_)
    if not (order == 1).all():
        odd[1:-1] = (number[2:] - number[:-2] == 2) & (order[:-1] != 1)
    return odd


def _invariants(steps: pl.DataFrame) -> list[Invariant]:
    """What should be the same in every row."""
    found: list[Invariant] = []
    seconds = _floats(steps, "seconds")
    for column in ("tflops_per_device", "tokens_per_s_per_device"):
        rate = _floats(steps, column)
        if seconds is not None and rate is not None:
            found.append(Invariant(seconds, rate, _work))
    loss, perplexity = _floats(steps, "lm_loss"), _floats(steps, "perplexity")
    if loss is not None and perplexity is not None:
        found.append(Invariant(loss, perplexity, _base))
    return found


def _work(seconds: Floats, rate: Floats) -> tuple[Floats, Floats]:
    return seconds * rate, (seconds + rate) * ROUNDING


def _base(loss: Floats, perplexity: Floats) -> tuple[Floats, Floats]:
    scale = np.exp(-loss)
    perplexity = perplexity * scale
    return perplexity, (perplexity + scale) * ROUNDING


def _floats(steps: pl.DataFrame, column: str) -> Floats | None:
    if column not in steps.columns or not steps[column].dtype.is_numeric():
        return None
    return steps[column].cast(pl.Float64).to_numpy()


def _deviating(invariant: Invariant) -> Mask:
    """The rows that differ from what the rows hold to, between two that do hold to it."""
    none = np.zeros(len(invariant.one), np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        if invariant.holds_everywhere():
            return none
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
    deviates[1:-1] &= holds[:-2] & holds[2:]
    deviates[[0, -1]] = False
    return deviates
