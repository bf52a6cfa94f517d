"""Finds out what became of the runs: deaths with their cause, logs that are not whole, starts that lie far apart."""

from collections.abc import Iterator

from tasks.diff.arms import seconds_between
from tasks.diff.decide import show_duration
from tasks.diff.rows import Arms
from tasks.records import Evidence, Finding, Source

FAR_APART_S = 15 * 60


def find_deaths(arms: Arms) -> Iterator[Finding]:
    """One finding for every arm of which a run did not end well: when, how far it came, and why."""
    for arm in arms:
        run = arm.dead
        if run is None:
            continue
        reading, error = run.reading, run.reading.error
        after = seconds_between(reading.started, reading.ended)
        when = f" {show_duration(after)} after its start" if after is not None else ""
        done = "before its first step" if reading.steps.is_empty() else f"after step {reading.steps['step'][-1]}"
        code = f" (exit code {reading.exit_code})" if reading.exit_code is not None else ""
        cause = f"{error.type}: {error.message}" if error else f"EXIT_CODE={reading.exit_code}"
        source = Source(line=error.line, offset=error.offset) if error else None
        yield Finding(
            kind="died",
            effect="blocks",
            message=f"{arm.label} died{when}, {done}{code}{f': {cause}' if error else ''}",
            evidence=(Evidence(arm=arm.name, value=cause, source=source),),
        )


def find_reading_gaps(arms: Arms) -> Iterator[Finding]:
    """What was not read of the logs: torn ends, steps that are missing or could not be understood, steps done twice."""
    for arm in arms:
        coverage = arm.reading.coverage
        missed = coverage.step_lines_seen - coverage.step_lines_parsed
        if missed:
            yield Finding(
                kind="unread-steps",
                effect="qualifies",
                message=f"{missed} of {coverage.step_lines_seen} step lines of {arm.label} could not be read",
                evidence=(Evidence(arm=arm.name, value=f"{coverage.step_lines_parsed} read"),),
            )
        if not coverage.complete and arm.dead is None:
            why = "is cut off" if coverage.truncated else "does not show how the run ended"
            yield Finding(
                kind="incomplete-log",
                effect="qualifies",
                message=f"the log of {arm.label} {why}",
                evidence=(Evidence(arm=arm.name, value="no EXIT_CODE"),),
            )
        if coverage.gaps:
            first, last = coverage.gaps[0]
            yield Finding(
                kind="missing-steps",
                effect="qualifies",
                message=f"steps are missing in the log of {arm.label}, first {first}–{last}",
                evidence=(Evidence(arm=arm.name, value=str(len(coverage.gaps))),),
            )
        if coverage.rewinds:
            yield Finding(
                kind="restarted",
                effect="note",
                message=f"{arm.label} went back to an earlier step {coverage.rewinds} ×: of steps that were done "
                "again, the last counts",
                evidence=(Evidence(arm=arm.name, value=str(coverage.rewinds)),),
            )


def find_distance(arms: Arms) -> Iterator[Finding]:
    """Runs that started so far apart that machine, network and storage may have changed between them."""
    starts = [arm.reading.started for arm in arms]
    apart = seconds_between(starts[0], starts[1])
    if apart is not None and abs(apart) > FAR_APART_S:
        yield Finding(
            kind="started-apart",
            effect="note",
            message=f"the runs started {show_duration(abs(apart))} apart",
            evidence=tuple(Evidence(arm=arm.name, value=str(start)) for arm, start in zip(arms, starts, strict=True)),
        )
