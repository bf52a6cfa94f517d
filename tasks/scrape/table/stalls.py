"""Finds stalls (steps that took far longer than their neighbours), and the causes that the log shows.

A step is a stall if it took more than 3 times the median of the 21 steps centred on it (fewer at the ends of a log),
and over 0.1 s more than this median. Stalls hardly change the median while they are fewer than half of the steps. The
first steps of processes do not count for the medians. Causes, in this order:

- `restart`: a step whose number is not larger than that of the step before, or the first step of another process;
- `compile`: the first step of the log, or a step with another number of tokens than the step before;
- `dispatch`: the two steps before and the two steps after fall short of the median by at least half of the step's
  excess in total; neighbours longer than the median count as 0. Steps are dispatched asynchronously, so one line can
  show too much time and others too little, without a loss of time;
- `checkpoint`: a save was in flight during the step;
- `eval`: an evaluation ended during the step;
- `profiler`: the profiler started or wrote its data during the step;
- `restart`, `compile`: the cause applies to the step before, whose execution may be part of this step's time;
- `unexplained`: none of these.

Lines between those of steps k and k+1 were printed during step k+1, if the trainer prints each step when it is done.
MaxText is deferred: it prints each step one iteration late, so that printing does not wait for the device. It prints
the lines between those of steps k and k+1 in iteration k+2, and measures this iteration's time before it saves,
evaluates or stops the profiler. The time of such work is in step k+3; the time of earlier work, e.g. the profiler's
start, is in step k+2. The log does not show the moment of the measurement, so the line of an evaluation or of the
profiler counts for both steps.
"""

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tasks.records.log_reading import Stall

TIMES = 3.0  # a stall takes more than this multiple of the median around it
SECONDS_MORE = 0.1  # a stall takes more than the median and this number of seconds
NEIGHBOURS = 21  # steps in a median, with the step itself in the middle
PAID_BACK = 0.5  # cause `dispatch`: the neighbours must fall short by at least this share of the step's excess
LATE = 2  # in deferred logs, the lines printed during a step begin this number of step lines earlier


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

    eval_offsets: of the lines at the ends of evaluations. profiler_offsets: of the profiler's lines. profiled_steps:
    steps whose time includes the profiler's start or end. starts: offsets at which processes started. deferred: whether
    step lines are printed one iteration late.
    """
    timed = steps.select("step", "seconds", "line", "offset", "total_weights").filter(pl.col("seconds").is_finite())
    if timed.height < 2:
        return ()
    seconds, step, lines, offsets = (timed[name].to_numpy() for name in ("seconds", "step", "line", "offset"))
    first = np.concatenate([[True], np.diff(step) <= 0])
    begun = np.searchsorted(offsets, np.asarray(starts, dtype=np.int64), side="right")
    first[begun[begun < len(first)]] = True
    medians = _usual_seconds(seconds, first)
    long = np.flatnonzero(seconds > np.maximum(TIMES * medians, medians + SECONDS_MORE))
    evals, profiles = (np.asarray(sorted(found), dtype=np.int64) for found in (eval_offsets, profiler_offsets))
    late = LATE if deferred else 0
    resized = _resized(timed)
    stalls = []
    for index, usual in zip(long.tolist(), medians[long].tolist(), strict=True):
        begin = int(offsets[index - 1 - late]) if index > late else 0
        end = int(offsets[index])
        # an evaluation must end during the step; a save may be in flight for several steps
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
    """Whether step lines are printed late: a save or evaluation after step n is printed before the line of step n-1.

    done: (step n, offset of the first line) of each save or evaluation after a step. A save that is printed between the
    lines of steps n-1 and n is no evidence: the trainer saves before it prints step n.
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
    """Mark the steps with another `total_weights` (number of tokens) than the step before: JAX compiles once more."""
    weights = timed["total_weights"].cast(pl.Float64, strict=False).to_numpy()
    before = np.concatenate([[np.nan], weights[:-1]])
    return np.asarray((weights != before) & ~np.isnan(weights) & ~np.isnan(before))


def _usual_seconds(seconds: NDArray[np.float64], first: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the median seconds around each step, without the first steps of processes; inf without other steps."""
    calm = pl.Series(seconds).set(pl.Series(first), None)
    median = calm.rolling_median(NEIGHBOURS, min_samples=1, center=True)
    return median.fill_null(math.inf).to_numpy()


def _is_paid_back(seconds: NDArray[np.float64], usual: float, index: int) -> bool:
    """Whether a step's neighbours (at most four) fall short of `usual` by PAID_BACK of the step's excess in total."""
    around = np.delete(seconds[max(0, index - 2) : index + 3], min(index, 2))
    lacking = float(np.maximum(usual - around, 0.0).sum())
    return lacking >= PAID_BACK * (float(seconds[index]) - usual)
