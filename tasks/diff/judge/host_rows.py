"""Judges the time of a step of one program by both host loops, which were timed without it."""

from tasks.diff.judge.program_time_rows import is_inside
from tasks.diff.phrases.amounts import ONE_RUN
from tasks.metrics.time_metrics import CPU_TIME
from tasks.records.compared_case import MetricDiff
from tasks.records.host_times import HostTimes, Span
from tasks.records.text import counted

HOST_LOOPS = "host loops without their program"
LOOPS = "loops in turns"
DIFFERENT = ("regressed", "improved")


def is_open(row: MetricDiff) -> bool:
    """Return whether a row of the runs' time is open, also where one run of each differs: a busy machine does that."""
    return row.verdict == "unknown" or (row.verdict in DIFFERENT and row.evidence == ONE_RUN)


def judge_by_host(row: MetricDiff, host: HostTimes) -> MetricDiff:
    """Return a row of the time of one program; if runs and loops in turns left it open, both host loops may decide it.

    Loops in turns have more noise: a difference inside the tolerance counts only if the hosts differ, too, as one of a
    single run of each does. Equal hosts never make a certain difference *same*: they are given zeros, and what a host
    does may depend on the results.

    What one program takes is equal, so the whole difference of two loops lies in their hosts. A host's work may hide
    behind the device, so a longer one makes the step longer for certain only where it exceeds the whole step; its
    processor time is always added.
    """
    is_of_loops = row.evidence == LOOPS and row.verdict != "same"
    if not (is_open(row) or is_of_loops) or not row.threshold or not row.baseline:
        return row
    if row.verdict == "unknown" and is_inside(row):
        return row  # slow steps left it open: the interval of typical steps does not
    if host.problem:
        return row.replace(reason=f"{row.reason}; {host.problem}")
    is_cpu = row.metric == CPU_TIME.name
    span, means = (host.cpu, host.cpu_s) if is_cpu else (host.wall, host.wall_s)
    assert span is not None
    hidden = "" if is_cpu else ", of which the device may hide a part"
    takes = f"{1000 * means[0]:.3g} and {1000 * means[1]:.3g} ms of a step"
    said = f"the host loops alone take {takes}: {show_span(span)}{hidden}"
    # where a host takes longer, how much of it the device hides may differ
    is_short = is_cpu or max(means) < row.threshold
    is_inside_threshold = -row.threshold < span.low and span.high < row.threshold
    if row.verdict == "unknown" and is_short and is_inside_threshold:
        verdict, reason = "same", f"one program, and {said}, inside {row.threshold_text} of a step"
    elif row.verdict != "unknown":
        agrees = span.low > 0 if row.verdict == "regressed" else span.high < 0
        if agrees or (is_of_loops and abs(row.effect or 0.0) * row.baseline > row.threshold):
            return row.replace(reason=f"{row.reason}; {said}")
        return row.replace(verdict="unknown", reason=f"the hosts alone do not differ for certain: {said}; {row.reason}")
    elif span.low > row.threshold and (is_cpu or means[1] + span.low - span.effect > row.baseline + row.threshold):
        verdict, reason = "regressed", f"same program; the host loop is slower: {said}"
    else:
        return row.replace(reason=f"{said}; {row.reason}")
    steps = f"{counted(host.steps, 'step')} of each in {host.pairs} processes"
    source = LOOPS if is_of_loops else "the runs"
    shown = f"; {source} show {row.effect_text}" if row.effect_text else ""
    return row.replace(
        verdict=verdict,
        reason=f"{reason}; {steps}{shown}",
        evidence=HOST_LOOPS,
        runs_wanted=None,
        cost_text="",
        effect=span.effect / row.baseline,
        effect_low=span.low / row.baseline,
        effect_high=span.high / row.baseline,
        effect_text=show_span(span),
        effect_short=f"{1000 * span.effect:+.3g} ms",
        p_value=None,
    )


def show_span(span: Span) -> str:
    """Return a difference in milliseconds with its interval, as text."""
    effect, low, high = (1000 * one for one in (span.effect, span.low, span.high))
    return f"{effect:+.3g} ms ({low:+.3g} … {high:+.3g})"
