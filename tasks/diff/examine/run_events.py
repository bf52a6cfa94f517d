"""Finds events of runs: deaths with their cause, incomplete logs, repeated compilations, starts far apart in time.

An arm is one side of a comparison of runs.
"""

from itertools import zip_longest

import polars as pl

from tasks.diff.examine.arms import ArmRuns, Arms, numbered
from tasks.diff.examine.observed import Observations, Observed, contrast, notice, places_of
from tasks.diff.phrases.amounts import show_duration
from tasks.metrics.merged_steps import place_of_row
from tasks.records.log_reading import RunReading, StepCompile
from tasks.records.run import RunRecord
from tasks.records.run_facts import seconds_between
from tasks.records.shared_fields import Source
from tasks.records.text import counted

FAR_APART_S = 15 * 60  # a larger distance between the arms' starts is a finding
SHOWN = 3  # limit of arguments that a message names


def find_deaths(arms: Arms) -> Observations:
    """Yield a finding for every arm with a run that died: last step, run time and cause of the first such run."""
    for arm in arms:
        dead = [(number, run) for number, run in enumerate(arm.runs) if run.has_died]
        if not dead:
            continue
        reading, error = dead[0][1].reading, dead[0][1].reading.error
        after = seconds_between(reading.started, reading.ended)
        done = "before its first step" if reading.steps.is_empty() else f"after step {reading.steps['step'][-1]}"
        done += f" at {error.place}" if error and error.place else ""
        cause = f": {error.reason}" if error else ""
        details = [error.type] if error and error.message else []
        details += [f"exit code {reading.exit_code}"] if reading.exit_code is not None else []
        details += [f"{show_duration(after)} after its start"] if after is not None else []
        how = f" ({', '.join(details)})" if details else ""
        also = f" ({len(dead)} of its {len(arm.runs)} runs did)" if len(dead) > 1 else ""
        shown = [(arm, *_cause(number, run.reading)) for number, run in dead]
        claim = f"{arm.label} died {done}"
        yield notice("died", f"{claim}{cause}{how}{also}", *shown).replace(claim=claim if cause else "")


def _cause(number: int, reading: RunReading) -> tuple[str, Source | None]:
    error = reading.error
    if error is None:
        return f"EXIT_CODE={reading.exit_code}", None
    return error.summary, Source(line=error.line, offset=error.offset, run=number)


def find_reading_gaps(arms: Arms) -> Observations:
    """Yield findings for incomplete logs, lost lines, and unread, missing or repeated steps; one per kind and arm."""
    for arm in arms:
        gaps = [item for number, run in enumerate(arm.runs) for item in _gaps_of_run(arm, number, run)]
        for kind in dict.fromkeys(item.kind for item in gaps):
            first, *others = [item for item in gaps if item.kind == kind]
            more = f" (as in {len(others)} more of its runs)" if others else ""
            evidence = tuple(evidence for item in (first, *others) for evidence in item.evidence)
            yield Observed(kind=kind, message=first.message + more, evidence=evidence)


def _gaps_of_run(arm: ArmRuns, number: int, run: RunRecord) -> Observations:
    coverage, steps, name = run.reading.coverage, run.reading.steps, arm.name_run(number)

    missed = coverage.step_lines_seen - coverage.step_lines_parsed
    if missed:
        unread = coverage.unread[0] if coverage.unread else None
        place = Source(line=unread.line, offset=unread.offset, run=number) if unread else None
        message = f"{missed} of {coverage.step_lines_seen} step lines of {name} could not be read"
        yield notice("unread-steps", message, (arm, f"{coverage.step_lines_parsed} read", place))
    cut = coverage.truncated or run.reading.fate == "cut_off"
    lacks_only_end = run.reading.fate == "finished" and run.reading.exit_code is None and not missed
    if not coverage.complete and not run.has_died and (cut or not lacks_only_end):
        message = f"the log of {name} {'is cut off' if cut else 'does not show how the run ended'}"
        yield notice("incomplete-log", message, (arm, "no EXIT_CODE", place_of_row(steps, -1, run=number)))
    if coverage.gaps:
        first, last = coverage.gaps[0]
        message = f"steps are missing in the log of {name}, first {first}–{last}"
        place = place_of_row(steps.filter(pl.col("step") > last), run=number)
        yield notice("missing-steps", message, (arm, f"gaps: {len(coverage.gaps)}", place))
    if coverage.lost:
        message = f"{coverage.lost[0]} (in the log of {name})"
        yield notice("lost-lines", message, (arm, f"{len(coverage.lost)} ×", place_of_row(steps, -1, run=number)))
    if coverage.rewinds:
        times = counted(coverage.rewinds, "time")
        again = f"went back to an earlier step {times}; for repeated steps the last values count"
        place = place_of_row(steps.filter(pl.col("step") <= pl.col("step").shift(1)), run=number)
        yield notice("restarted", f"{name} {again}", (arm, f"{coverage.rewinds} ×", place))


def find_starts_apart(arms: Arms) -> Observations:
    """Yield a finding if the first runs started so far apart that machine, network and storage may have changed."""
    starts = arms[0].reading.started, arms[1].reading.started
    apart = seconds_between(*starts)
    if apart is not None and abs(apart) > FAR_APART_S:
        message = f"the runs started {show_duration(abs(apart))} apart"
        yield contrast(arms, "started-apart", message, starts, places_of(arms, "started"))


def find_recompiles(arms: Arms) -> Observations:
    """Yield at most one finding per arm: its first run with several compilations, and the first two signatures."""
    for arm in arms:
        for number, run in enumerate(arm.runs):
            compiles = run.compiles or run.reading.compiles
            if len(compiles) < 2:
                continue
            first, again = compiles[:2]
            count = f"{arm.name_run(number)} compiled its training step {len(compiles)} times"
            places = ((one, one.source and numbered(one.source, number)) for one in (first, again))
            shown = ((arm, ", ".join(one.signature), place) for one, place in places)
            yield notice("recompiled", f"{count}: {_differences(first, again)}", *shown)
            break


def _differences(first: StepCompile, again: StepCompile) -> str:
    pairs = enumerate(zip_longest(first.signature, again.signature, fillvalue="none"), start=1)
    texts = [f"argument {n} was {left}, then {right}" for n, (left, right) in pairs if left != right]
    if not texts:
        return "with arguments of the same types; their shardings, layouts or static values differ"
    return "; ".join(texts[:SHOWN]) + (f"; and {len(texts) - SHOWN} more" if len(texts) > SHOWN else "")
