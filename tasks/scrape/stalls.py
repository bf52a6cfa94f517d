"""Picks the steps that took far longer than their neighbours, and says what the log shows as the reason.

A step is a stall if it took 3 times the median of the 21 steps around it (with it in the middle; at the ends of a log
as many as there are) and at least 0.1 s more. The median of a stall's neighbours is not moved by the stall itself, nor
by others as long as they are fewer than half. The first step of a process has no steady neighbours before it: it is
held against the median of the steps after it. Reasons, in this order:

- `compile`: the first step of the log, or the first one after the steps were rewound (a restart);
- `dispatch`: the time is paid back at once. Steps are dispatched asynchronously, so one line can show a step's time
  and the next one almost none; if the steps within two lines lack at least half of the excess, nothing was lost;
- `checkpoint`: a save was under way between the line before and this one;
- `eval`: an evaluation was printed between the line before and this one;
- `unexplained`: none of these.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.records import Stall

TIMES = 3.0
SECONDS_MORE = 0.1
NEIGHBOURS = 21
PAID_BACK = 0.5


def find_stalls(
    steps: pl.DataFrame, *, saving: Callable[[int, int], bool], eval_offsets: Sequence[int]
) -> tuple[Stall, ...]:
    """The stalls of a run. `saving(begin, end)`: whether a save was under way between two offsets of the log."""
    timed = steps.filter(pl.col("seconds").is_finite())
    if timed.height < 2:
        return ()
    seconds = timed["seconds"].to_numpy()
    step = timed["step"].to_numpy()
    offsets = timed["offset"].to_numpy()
    first = np.concatenate([[True], np.diff(step) <= 0])
    calm = np.where(first, np.nan, seconds)
    least = _least_around(calm)
    # the median is never less than the least: only steps that are long against that need their median
    maybe = np.flatnonzero((seconds > TIMES * least) & (seconds > least + SECONDS_MORE)).tolist()
    evals = np.asarray(sorted(eval_offsets), dtype=np.int64)
    stalls = []
    for index in maybe:
        usual = _usual(calm, index)
        if seconds[index] <= max(TIMES * usual, usual + SECONDS_MORE):
            continue
        begin = int(offsets[index - 1]) if index else 0
        end = int(offsets[index])
        if first[index]:
            cause = "compile"
        elif _is_paid_back(seconds, usual, index):
            cause = "dispatch"
        elif saving(begin, end):
            cause = "checkpoint"
        elif np.searchsorted(evals, begin) < np.searchsorted(evals, end):
            cause = "eval"
        else:
            cause = "unexplained"
        row = timed.row(index, named=True)
        stalls.append(
            Stall(step=row["step"], seconds=row["seconds"], cause=cause, line=row["line"], offset=row["offset"])
        )
    return tuple(stalls)


def _least_around(calm: NDArray[np.float64]) -> NDArray[np.float64]:
    """A lower bound for the least of the steps around each step: the least of the three blocks around its block."""
    starts = np.arange(0, len(calm), NEIGHBOURS)
    least = np.fmin.reduceat(calm, starts)
    padded = np.concatenate([[np.nan], least, [np.nan]])
    around = np.fmin(np.fmin(padded[:-2], padded[1:-1]), padded[2:])
    return np.repeat(np.nan_to_num(around, nan=np.inf), NEIGHBOURS)[: len(calm)]


def _usual(calm: NDArray[np.float64], index: int) -> float:
    """What a step would have taken: the median around it, without the first step of each process."""
    half = NEIGHBOURS // 2
    around = calm[max(0, index - half) : index + half + 1]
    around = around[~np.isnan(around)]
    return float(np.median(around)) if around.size else math.inf


def _is_paid_back(seconds: NDArray[np.float64], usual: float, index: int) -> bool:
    around = np.delete(seconds[max(0, index - 2) : index + 3], min(index, 2))
    lacking = float(np.maximum(usual - around, 0.0).sum())
    return lacking >= PAID_BACK * (float(seconds[index]) - usual)
