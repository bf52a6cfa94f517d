"""Takes the time of each run apart: compilation, steady steps, stalls by cause, waits beside the steps, the rest."""

from collections.abc import Iterator

import polars as pl

from tasks.diff.arms import ArmRuns, seconds_between, step_table
from tasks.diff.rows import Arms
from tasks.diff.steady import steady
from tasks.records import RunReading, RunRecord, Source, Stall, TimeAccount, TimePart

COMPUTE = "compute"
FRAME_S = 1.0  # the frame of a log tells whole seconds: a line may be later than the end by as much
NO_STALLS = frozenset({COMPUTE, "compile", "dispatch"})  # of what is found in steps


def account_times(arms: Arms) -> tuple[TimeAccount, ...]:
    """One account per run that has a steady state."""
    return tuple(account for arm in arms for number in range(len(arm.runs)) if (account := account_run(arm, number)))


def account_run(arm: ArmRuns, number: int) -> TimeAccount | None:
    """Where the time of one run went, out of its log; None with fewer than two steps after the first.

    Of a stall, as much as a steady step counts as computing and the rest as its cause. What dispatch artefacts took
    is missing from the steps around them, so that `compute` and `dispatch` together are what was computed.
    """
    run = arm.runs[number]
    state = steady(run, step_table(run))
    timed = run.reading.steps.filter(pl.col("seconds").is_finite())
    if state is None or timed.is_empty():
        return None
    spent = float(timed["seconds"].sum())
    parts: dict[str, TimePart] = {}
    longest: dict[str, float] = {}
    for stall in _listed(run, timed):
        excess = stall.seconds - state.median_s
        if excess <= 0:
            continue
        before = parts.get(stall.cause)
        place = Source(line=stall.line, offset=stall.offset, run=number)
        if before is not None and longest[stall.cause] >= excess:
            place = before.source or place
        longest[stall.cause] = max(longest.get(stall.cause, 0.0), excess)
        parts[stall.cause] = TimePart(
            part=stall.cause,
            seconds=excess + (before.seconds if before else 0.0),
            share=0.0,
            steps=1 + (before.steps if before else 0),
            source=place,
        )
    computed = spent - sum(part.seconds for part in parts.values())
    found = [TimePart(part=COMPUTE, seconds=computed, share=0.0, steps=timed.height), *parts.values()]
    found += _outside(run.reading, timed, spent, number)
    total = sum(part.seconds for part in found)
    return TimeAccount(
        arm=arm.name,
        run_name=run.reading.name,
        total_s=total,
        parts=tuple(part.model_copy(update={"share": part.seconds / total if total else 0.0}) for part in found),
    )


def is_stall(part: TimePart) -> bool:
    """Whether a part is what stalls of steps cost."""
    return part.steps > 0 and part.part not in NO_STALLS


def _listed(run: RunRecord, timed: pl.DataFrame) -> Iterator[Stall]:
    """The stalls with the time that the log shows for the line that they were found in."""
    rows = timed.filter(pl.col("offset").is_in([stall.offset for stall in run.reading.stalls]))
    seconds = dict(zip(rows["offset"], rows["seconds"], strict=True))
    for stall in run.reading.stalls:
        yield stall.model_copy(update={"seconds": seconds.get(stall.offset, stall.seconds)})


def _outside(reading: RunReading, timed: pl.DataFrame, spent: float, number: int) -> list[TimePart]:
    """What the steps do not explain of the run's length, in the log's words; nothing if its length is not known."""
    length = seconds_between(reading.started, reading.ended)
    if length is None or length <= spent:
        return []
    left = length - spent
    first, last = timed.row(0, named=True), timed.row(-1, named=True)
    before, after = seconds_between(reading.started, first["time"]), seconds_between(last["time"], reading.ended)
    if before is None or after is None or min(before, after) < -FRAME_S:
        spans = {"outside": left}
    else:
        # a line that is printed late comes after the step that follows it
        seen = sum(timed["seconds"].head(2 if reading.deferred else 1).to_list())
        start = min(max(before - seen, 0.0), left)
        end = min(max(after, 0.0), left - start)
        spans = {"start": start, "between": left - start - end, "end": end}
    parts: dict[str, TimePart] = {}
    for wait in reading.waits:
        name = "outside" if "outside" in spans else "end" if wait.offset > last["offset"] else "between"
        seconds = min(wait.seconds, spans[name])
        spans[name] -= seconds
        before_it = parts.get(wait.part)
        source = Source(line=wait.line, offset=wait.offset, run=number)
        parts[wait.part] = TimePart(
            part=wait.part,
            seconds=seconds + (before_it.seconds if before_it else 0.0),
            share=0.0,
            source=source if before_it is None or seconds > before_it.seconds else before_it.source,
        )
    rest = [TimePart(part=name, seconds=seconds, share=0.0) for name, seconds in spans.items()]
    return [part for part in (*parts.values(), *rest) if part.seconds > 0]
