"""Picks the steps that took far longer than their neighbours, and says what the log shows as the reason.

A step is a stall if it took 3 times the median of the 21 steps around it (with it in the middle; at the ends of a log
as many as there are) and at least 0.1 s more. The median of a stall's neighbours is not moved by the stall itself, nor
by others as long as they are fewer than half. The first step of a process has no steady neighbours before it: it is
held against the median of the steps after it. Reasons, in this order:

- `compile`: the first step of the log, or a step of another size than the one before it;
- `restart`: the first step after the steps were rewound, or after another process started;
- `dispatch`: the time is paid back at once. Steps are dispatched asynchronously, so one line can show a step's time
  and the next one almost none; if the steps within two lines lack at least half of the excess, nothing was lost;
- `checkpoint`: a save was under way in the time that the step's seconds cover;
- `eval`: an evaluation ended in that time;
- `profiler`: the profiler was started, or wrote what it had collected, in that time;
- `compile` and `restart` again, for the second step of a program: its time holds the first one's execution;
- `unexplained`: none of these.

Where in the log that time stands depends on the trainer. One that prints a step when it is done covers the lines since
the step before. MaxText prints each step one iteration late, so that printing does not wait for the device: what stands
between the lines of steps k and k+1 was done in iteration k+2, after its step was timed, and is in the time of k+3.
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
LATE = 2  # lines by which a deferred step line is behind its time


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
    """The stalls of a run. `saving(begin, end)`: whether a save was under way between two offsets of the log.

    starts: where processes of the run started. deferred: whether step lines are printed one iteration late.
    """
    timed = steps.select("step", "seconds", "line", "offset", "total_weights").filter(pl.col("seconds").is_finite())
    if timed.height < 2:
        return ()
    seconds = timed["seconds"].to_numpy()
    first = np.zeros(len(seconds), np.bool_)
    first[0] = True
    np.less_equal(np.diff(timed["step"].to_numpy()), 0, out=first[1:])
    if starts:
        begun = np.searchsorted(timed["offset"].to_numpy(), np.asarray(starts, dtype=np.int64), side="right")
        first[begun[begun < len(first)]] = True
    medians = _usual(seconds, first)
    long = np.flatnonzero(seconds > np.maximum(TIMES * medians, medians + SECONDS_MORE))
    if not long.size:
        return ()
    step = timed["step"].to_numpy()
    evals, profiles = (np.asarray(sorted(found), dtype=np.int64) for found in (eval_offsets, profiler_offsets))
    late = LATE if deferred else 0
    resized = _resized(timed)
    lines, offsets = timed["line"], timed["offset"].to_numpy()
    stalls = []
    for index, usual in zip(long.tolist(), medians[long].tolist(), strict=True):
        begin = int(offsets[index - 1 - late]) if index > late else 0
        end = int(offsets[index])
        # what is over can only explain the time that it was in; a save goes on in the background
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
            Stall(step=int(step[index]), seconds=float(seconds[index]), cause=cause, line=lines[index], offset=end)
        )
    return tuple(stalls)


def is_deferred(steps: pl.DataFrame, done: Sequence[tuple[int, int]]) -> bool:
    """Whether steps are printed late: something that is done after step n stands before the line of the step before it.

    done: (step, offset) of where something begins that the trainer does once that step is done: saves, evaluations. A
    trainer that saves a step before it prints it is not late.
    """
    if steps.is_empty():
        return False
    offsets, numbers = steps["offset"].to_numpy(), steps["step"].to_numpy()
    after = np.searchsorted(offsets, [offset for _, offset in done])
    return any(
        index < len(numbers) and numbers[index] == step - 1
        for index, (step, _) in zip(after.tolist(), done, strict=True)
    )


def _any_between(offsets: NDArray[np.int64], begin: int, end: int) -> bool:
    return bool(np.searchsorted(offsets, begin) < np.searchsorted(offsets, end))


def _resized(timed: pl.DataFrame) -> NDArray[np.bool_]:
    """Where a step has another number of weights than the one before it: its program is compiled anew."""
    weights = timed["total_weights"].cast(pl.Float64, strict=False).to_numpy()
    before = np.concatenate([[np.nan], weights[:-1]])
    return np.asarray((weights != before) & ~np.isnan(weights) & ~np.isnan(before))


def _usual(seconds: NDArray[np.float64], first: NDArray[np.bool_]) -> NDArray[np.float64]:
    """What each step would have taken: the median around it, without the first step of each process."""
    calm = pl.Series(seconds).set(pl.Series(first), None)
    median = calm.rolling_median(NEIGHBOURS, min_samples=1, center=True)
    return median.fill_null(math.inf).to_numpy()


def _is_paid_back(seconds: NDArray[np.float64], usual: float, index: int) -> bool:
    around = np.delete(seconds[max(0, index - 2) : index + 3], min(index, 2))
    lacking = float(np.maximum(usual - around, 0.0).sum())
    return lacking >= PAID_BACK * (float(seconds[index]) - usual)
