"""Decides with --until-decided whether a comparison gets more repeats (runs of each arm), how many, and why.

A look is one decision on the runs so far; with more repeats, the next look follows.
"""

from math import inf

from configs.comparison import ENOUGH_REPEATS
from configs.frozen import Frozen
from tasks.diff.judge.decide import MIN_REPEATS
from tasks.diff.phrases.amounts import show_duration
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.text import counted

AT_MOST_TIMES = 2  # largest factor by which repeats grow at once, because an estimate from few runs is rough


class Patience(Frozen):
    """The limits of further repeats."""

    budget_s: float | None = None  # seconds since the comparison's start; None: no limit
    most: int = ENOUGH_REPEATS  # largest number of repeats


class NextLook(Frozen):
    """The repeats at the next look (None: there is none), and the reason; the reason is empty if all is decided."""

    repeats: int | None
    why: str


def next_look(record: ComparisonRecord, *, repeats: int, patience: Patience, spent_s: float) -> NextLook:
    """Return the next look after `record`, the result of `repeats` runs of each arm.

    spent_s: seconds since the comparison's start.
    """
    rows = undecided_rows(record)
    if not rows:
        return NextLook(repeats=None, why="")
    titles = " and ".join(f"{row.title} ({row.effect_text or 'noise not known'})" for row in rows)
    undecided = f"{titles} {'is' if len(rows) == 1 else 'are'} undecided"
    wanted = max((row.runs_wanted for row in rows if row.runs_wanted is not None), default=None)
    following = next_repeats(repeats, wanted, most=patience.most)
    if following <= repeats:
        return NextLook(repeats=None, why=f"{undecided} after {repeats} repeats, and no more are allowed")
    each = _seconds_of_pair(record)
    left = inf if patience.budget_s is None else patience.budget_s - spent_s
    if each is not None and left < inf:
        following = min(following, repeats + int(left // each))
    if left <= 0 or following <= repeats:
        allowed = show_duration(patience.budget_s or 0.0)
        return NextLook(repeats=None, why=f"{undecided}, and the time budget of {allowed} allows no more runs")
    more = following - repeats
    price = "" if each is None else f", about {show_duration(more * each)}"
    return NextLook(repeats=following, why=f"{undecided}: {counted(more, 'more run')} of each arm{price}")


def next_repeats(repeats: int, wanted: int | None, *, most: int) -> int:
    """Return the repeats for the next look: `wanted` (None: as many as allowed), but at least one more than now.

    The result is at most AT_MOST_TIMES as many as now (or MIN_REPEATS, if that is more), and never above `most`.
    """
    reasonable = max(AT_MOST_TIMES * repeats, MIN_REPEATS)
    return min(most, max(repeats + 1, min(wanted or reasonable, reasonable)))


def undecided_rows(record: ComparisonRecord) -> list[MetricDiff]:
    """Return the undecided rows that more runs may decide; none if a finding blocks the verdict."""
    if any(finding.effect == "blocks" for finding in record.findings):
        return []
    return [
        row
        for row in record.rows
        if row.group == "ours"  # MaxView's rows share the decision of such a row
        and row.verdict == "unknown"
        and (row.runs_wanted is not None or row.effect is not None)
    ]


def _seconds_of_pair(record: ComparisonRecord) -> float | None:
    """Return the seconds of one more run of both arms together, from the runs' time accounts; None if unknown."""
    known = [
        [account.total_s for account in record.times if account.arm == arm.name]
        for arm in (record.baseline, record.candidate)
    ]
    return sum(sum(times) / len(times) for times in known) if all(known) else None
