"""Divides a run's wall time into parts: compilation, computing, stalls by cause, waits outside the steps, the rest."""

import numpy as np
import polars as pl

from tasks.metrics.merged_steps import step_table
from tasks.metrics.step_time_levels import MIN_STEPS
from tasks.records.log_reading import RunReading
from tasks.records.run import RunRecord
from tasks.records.run_facts import TimeAccount, TimePart, seconds_between
from tasks.records.shared_fields import Source

COMPUTE = "compute"
FIRST_STEPS = "first steps"  # part with all steps of a run that died too early to separate compiling from computing
COARSE_S = 1.0  # the error, in seconds, of a difference of two times that are printed in full seconds
FRAME_S = 1.0  # a run's start and end are printed in full seconds, so a line may be this much earlier or later
NO_STALLS = frozenset({COMPUTE, FIRST_STEPS, "compile", "dispatch"})  # parts with steps that do not count as lost


def account_death(run: RunRecord) -> TimeAccount | None:
    """Return the time account of a dead run, without separate stalls; None for other runs, or without a length.

    Used if `account_run` returns None, as for a run that died too early.
    """
    length = seconds_between(run.reading.started, run.reading.ended)
    if not run.has_died or not length:
        return None
    timed = run.reading.steps.filter(pl.col("seconds").is_finite())
    if timed.is_empty():
        parts = [TimePart(part="start", seconds=length, share=1.0)]
    else:
        spent = min(float(timed["seconds"].sum()), length)
        parts = [TimePart(part=FIRST_STEPS, seconds=spent, share=0.0, steps=timed.height)]
        parts += _parts_outside_steps(run.reading, timed, spent)
    return _account(run, parts)


def account_run(run: RunRecord) -> TimeAccount | None:
    """Return the time account of a run; None with fewer than MIN_STEPS timed steps after the first, or no timed line.

    A stalled step counts as compute up to the median step; the rest of its time counts for the stall's cause. Dispatch
    artefacts move time between steps, so only the sum of `compute` and `dispatch` is the time of the computation.
    """
    later = step_table(run)[1:].filter(pl.col("seconds").is_finite())["seconds"].to_numpy()
    timed = run.reading.steps.filter(pl.col("seconds").is_finite())
    if later.size < MIN_STEPS or timed.is_empty():
        return None
    median = float(np.median(later))  # robust, unless half of the steps or more are stalls
    spent = float(timed["seconds"].sum())
    parts: dict[str, TimePart] = {}
    for stall in sorted(run.reading.stalls, key=lambda stall: -stall.seconds):
        if stall.seconds > median:
            place = Source(line=stall.line, offset=stall.offset)
            _add_time(parts, stall.cause, stall.seconds - median, place, steps=1)
    computed = spent - sum(part.seconds for part in parts.values())
    every_part = [TimePart(part=COMPUTE, seconds=computed, share=0.0, steps=timed.height), *parts.values()]
    every_part += _parts_outside_steps(run.reading, timed, spent)
    return _account(run, every_part)


def _account(run: RunRecord, parts: list[TimePart]) -> TimeAccount:
    total = sum(part.seconds for part in parts)
    return TimeAccount(
        arm=run.arm,
        run_name=run.reading.name,
        total_s=total,
        parts=tuple(part.replace(share=part.seconds / total if total else 0.0) for part in parts),
    )


def is_steady(account: TimeAccount) -> bool:
    """Return whether an account is from `account_run`, so that compute and stalls are separate parts."""
    return any(part.part == COMPUTE for part in account.parts)


def is_stall(part: TimePart) -> bool:
    """Return whether a part is time lost in stalled steps."""
    return part.steps > 0 and part.part not in NO_STALLS


def _parts_outside_steps(reading: RunReading, timed: pl.DataFrame, spent: float) -> list[TimePart]:
    """Return the parts of a run's time outside its steps; empty if the run's length is unknown or at most `spent`."""
    length = seconds_between(reading.started, reading.ended)
    if length is None or length <= spent:
        return []
    left = length - spent
    first, last = timed.row(0, named=True), timed.row(-1, named=True)
    before, after = seconds_between(reading.started, first["time"]), seconds_between(last["time"], reading.ended)
    if before is None or after is None or min(before, after) < -FRAME_S:
        spans = {"outside": left}
    else:
        # a deferred log prints a step's line only after the following step
        seen = sum(timed["seconds"].head(2 if reading.deferred else 1).to_list())
        start = min(max(before - seen, 0.0), left)
        end = min(max(after, 0.0), left - start)
        spans = {"start": start, "between": left - start - end, "end": end}
    parts: dict[str, TimePart] = {}
    for wait in sorted(reading.waits, key=lambda wait: -wait.seconds):
        name = "outside" if "outside" in spans else "end" if wait.offset > last["offset"] else "between"
        seconds = min(wait.seconds, spans[name])
        spans[name] -= seconds
        _add_time(parts, wait.part, seconds, Source(line=wait.line, offset=wait.offset))
    rest = [TimePart(part=name, seconds=seconds, share=0.0) for name, seconds in spans.items()]
    return [part for part in (*parts.values(), *rest) if part.seconds > 0]


def _add_time(parts: dict[str, TimePart], name: str, seconds: float, place: Source, *, steps: int = 0) -> None:
    """Add time to a part. The part keeps the place of its first addition, so callers add the longest time first."""
    part = parts.get(name) or TimePart(part=name, seconds=0.0, share=0.0, source=place)
    parts[name] = part.replace(seconds=part.seconds + seconds, steps=part.steps + steps)


def seconds_between_steps(run: RunRecord) -> float:
    """Return the mean pause between steps (s): from the first step line to the last, without the steps' times.

    At least 0. Also 0 if a step line has no time, if a step is repeated, if the step table has other steps than the
    log, or with fewer than three step lines. The first line of a deferred log is printed after the second step.
    """
    rows, table = run.reading.steps, step_table(run)
    if rows.height < 3 or rows["time"].null_count() or table.height != rows.height:
        return 0.0
    length = seconds_between(rows["time"][0], rows["time"][-1])
    if length is None or length <= 0:
        return 0.0
    steps = float(table["seconds"][2 if run.reading.deferred else 1 :].fill_null(0.0).sum())
    coarse = COARSE_S if not any("." in time for time in rows["time"]) else 0.0
    return max(0.0, length - steps - coarse) / (rows.height - 1)
