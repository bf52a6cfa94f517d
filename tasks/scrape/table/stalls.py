"""Finds the steps that took far longer than their neighbours, and the reason that the log shows.

A step is a stall if it took 3 times the median of the 21 steps centred on it (fewer at the ends of a log) and at least
0.1 s more. The median is robust against the stall itself and against others, if they are fewer than half. The first
step of a process has no steady neighbours before it and is compared with the steps after it. Reasons, in this order:

- `compile`: the first step of the log, or a step of another size than the one before it;
- `restart`: the first step after the steps were rewound, or after another process started;
- `dispatch`: the next steps are shorter by the same time. Steps are dispatched asynchronously, so one line can show too
  much time and the next too little; no time was lost if the two next steps lack at least half of the excess;
- `checkpoint`: a save was in flight in the time that the step's seconds cover;
- `eval`: an evaluation ended in that time;
- `profiler`: the profiler started or wrote its data in that time;
- `compile` and `restart` again, for the second step of a program: its time includes the first step's execution;
- `unexplained`: none of these.

The lines that fall into that time depend on the trainer. If a step is printed when it is done, they are the lines since
the step before. MaxText prints each step one iteration late, so that printing does not wait for the device: lines
between steps k and k+1 were printed in iteration k+2, after its step was timed, and count for the time of k+3.
"""

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.records import Stall

TIMES = 3.0
SECONDS_MORE = 0.1
NEIGHBOURS = 21
PAID_BACK = 0.5
LATE = 2  # step lines between a deferred step line and its time


def find_stalls(
    steps: pl.DataFrame,
    *,
    saving: Callable[[int, int], bool],
    eval_offsets: Sequence[int],
    profiler_offsets: Sequence[int] = (),
    profiled_steps: Collection[int] = (),
    starts: Sequence[int] = (),
    deferred: bool = False,
) -> tuple[Stall, ...]:
    """Return the stalls of a run. `saving(begin, end)`: whether a save was in flight between two offsets of the log.

    starts: offsets where the run's processes started. deferred: whether step lines are printed one iteration late.
    """
    timed = steps.select("step", "seconds", "line", "offset", "total_weights").filter(pl.col("seconds").is_finite())
    if timed.height < 2:
        return ()
    seconds, step, lines, offsets = (timed[name].to_numpy() for name in ("seconds", "step", "line", "offset"))
    first = np.concatenate([[True], np.diff(step) <= 0])
    begun = np.searchsorted(offsets, np.asarray(starts, dtype=np.int64), side="right")
    first[begun[begun < len(first)]] = True
    medians = _usual(seconds, first)
    long = np.flatnonzero(seconds > np.maximum(TIMES * medians, medians + SECONDS_MORE))
    evals, profiles = (np.asarray(sorted(found), dtype=np.int64) for found in (eval_offsets, profiler_offsets))
    late = LATE if deferred else 0
    resized = _resized(timed)
    stalls = []
    for index, usual in zip(long.tolist(), medians[long].tolist(), strict=True):
        begin = int(offsets[index - 1 - late]) if index > late else 0
        end = int(offsets[index])
        # an evaluation explains only its own time; a save continues in the background
        over = int(offsets[max(index - late + 1, 0)]) if deferred else end
        reasons = (
            ("restart", first[index] and index > 0),
            ("compile", first[index] or resized[index]),
            ("dispatch", _is_paid_back(seconds, usual, index)),
            ("checkpoint", saving(begin, end)),
            ("eval", _any_between(evals, begin, over)),
            ("profiler", _any_between(profiles, begin, over) or int(step[index]) in profiled_steps),
            ("restart", first[index - 1] and index > 1),
            ("compile", first[index - 1] or resized[index - 1]),
        )
        cause = next((name for name, holds in reasons if holds), "unexplained")
        stalls.append(
            Stall(step=int(step[index]), seconds=float(seconds[index]), cause=cause, line=int(lines[index]), offset=end)
        )
    return tuple(stalls)


def is_deferred(steps: pl.DataFrame, done: Sequence[tuple[int, int]]) -> bool:
    """Whether steps are printed late: work after step n is printed before the line of step n-1.

    done: (step, offset) of the begin of each save or evaluation that follows a step. A trainer that saves a step before
    printing it is not late.
    """
    offsets, numbers = steps["offset"].to_numpy(), steps["step"].to_numpy()
    after = np.searchsorted(offsets, [offset for _, offset in done])
    return any(
        index < len(numbers) and numbers[index] == step - 1
        for index, (step, _) in zip(after.tolist(), done, strict=True)
    )


def _any_between(offsets: NDArray[np.int64], begin: int, end: int) -> bool:
    return bool(np.searchsorted(offsets, begin) < np.searchsorted(offsets, end))


def _resized(timed: pl.DataFrame) -> NDArray[np.bool_]:
    """Mark the steps with another number of weights than the step before: their program is compiled again."""
    weights = timed["total_weights"].cast(pl.Float64, strict=False).to_numpy()
    before = np.concatenate([[np.nan], weights[:-1]])
    return np.asarray((weights != before) & ~np.isnan(weights) & ~np.isnan(before))


def _usual(seconds: NDArray[np.float64], first: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the expected seconds of each step: the median around it, without the first step of each process."""
    calm = pl.Series(seconds).set(pl.Series(first), None)
    median = calm.rolling_median(NEIGHBOURS, min_samples=1, center=True)
    return median.fill_null(math.inf).to_numpy()


def _is_paid_back(seconds: NDArray[np.float64], usual: float, index: int) -> bool:
    around = np.delete(seconds[max(0, index - 2) : index + 3], min(index, 2))
    lacking = float(np.maximum(usual - around, 0.0).sum())
    return lacking >= PAID_BACK * (float(seconds[index]) - usual)
