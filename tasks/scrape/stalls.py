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
    usual = _usual(timed["seconds"], first)
    long = (seconds > TIMES * usual) & (seconds > usual + SECONDS_MORE)
    evals = np.asarray(sorted(eval_offsets), dtype=np.int64)
    stalls = []
    for index in np.flatnonzero(long).tolist():
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


def _usual(seconds: pl.Series, first: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What each step would have taken: the median around it, without the first step of each process."""
    calm = pl.Series(np.where(first, np.nan, seconds.to_numpy())).fill_nan(None)
    around = calm.rolling_median(NEIGHBOURS, min_samples=1, center=True)
    # a first step has no median of its own at the start of a long log, and its window reaches back after a restart
    return around.fill_null(strategy="backward").fill_null(strategy="forward").fill_null(np.inf).to_numpy()


def _is_paid_back(seconds: NDArray[np.float64], usual: NDArray[np.float64], index: int) -> bool:
    around = [i for i in range(max(0, index - 2), min(len(seconds), index + 3)) if i != index]
    lacking = sum(max(0.0, float(usual[i] - seconds[i])) for i in around)
    return lacking >= PAID_BACK * float(seconds[index] - usual[index])
