"""Finds the changes of level in a series and the likely cause of each change.

A series contains a baseline's and a candidate's value of every night. The two lines of values and the line of their
ratio are judged one by one.
"""

from typing import Literal

from configs.schema import Frozen
from tasks.history.change_points import Change, Drift, Trend, find_trend
from tasks.history.series import Night, Series

type Line = Literal["baseline", "candidate", "ratio"]
type Cause = Literal["candidate", "shared", "baseline", "both"]

LINES: tuple[Line, ...] = ("baseline", "candidate", "ratio")
NEAR_NIGHTS = 2  # changes of two lines up to this many nights apart have one cause
LEAST_CHANGE = 0.005  # relative; smaller changes are irrelevant


class Event(Frozen):
    """One change of level of the baseline, the candidate or the ratio."""

    line: Line
    change: Change
    before: Night  # last night of the old level
    after: Night  # first night of the new level
    worse: bool | None  # None: neither higher nor lower values are better
    cause: Cause
    meaning: str  # a sentence about the cause


class LineTrend(Frozen):
    """The trend of the baseline, the candidate or the ratio. `nights`: index in the series of each of its values."""

    line: Line
    trend: Trend
    nights: tuple[int, ...]


class Judged(Frozen):
    """A series with its trends, all changes sorted by night, and notes."""

    series: Series
    lines: tuple[LineTrend, ...]
    events: tuple[Event, ...]
    notes: tuple[str, ...]  # sentences about drifts, and about too few nights

    def line(self, name: Line) -> LineTrend:
        return next(line for line in self.lines if line.line == name)


def judge(series: Series) -> Judged:
    """Return the trends of the baseline, the candidate and their ratio, and their changes with causes."""
    lines = tuple(_trend(series, line) for line in LINES)
    by_name = {line.line: line for line in lines}
    events = [event for line in lines for event in _events(series, line, by_name)]
    events.sort(key=lambda event: (series.nights.index(event.after), LINES.index(event.line)))
    return Judged(series=series, lines=lines, events=tuple(events), notes=tuple(_notes(series, by_name)))


def _trend(series: Series, line: Line) -> LineTrend:
    found = [(i, value) for i, night in enumerate(series.nights) if (value := getattr(night, line)) is not None]
    trend = find_trend([value for _, value in found], least_change=LEAST_CHANGE)
    return LineTrend(line=line, trend=trend, nights=tuple(i for i, _ in found))


def _events(series: Series, line: LineTrend, lines: dict[Line, LineTrend]) -> list[Event]:
    events = []
    for change in line.trend.changes:
        place = line.nights[change.index]
        before, after = series.nights[line.nights[change.index - 1]], series.nights[place]
        cause, meaning = _explain(series, line.line, place, lines)
        events.append(
            Event(
                line=line.line,
                change=change,
                before=before,
                after=after,
                worse=_is_worse(series.better, change),
                cause=cause,
                meaning=meaning,
            )
        )
    return events


def _explain(series: Series, line: Line, place: int, lines: dict[Line, LineTrend]) -> tuple[Cause, str]:
    """Return the cause of a line's change at the night `place`, and a sentence about the cause.

    If an arm's values changed, but the ratio did not, the cause is "shared": it is outside of the candidate's code."""
    near = {other: _has_change_near(lines[other], place) for other in LINES}
    base, candidate = series.baseline_arm, series.candidate_arm
    if (line == "ratio" or near["ratio"]) and near["baseline"] and near["candidate"]:
        return "both", f"{base} and {candidate} both moved, by different amounts"
    if line == "ratio":
        if near["baseline"]:
            return "baseline", f"{base} moved and {candidate} did not: the change is in {base}"
        return "candidate", f"{candidate} moved against {base}: the change is in {candidate}"
    if near["ratio"]:
        moved, still = (base, candidate) if line == "baseline" else (candidate, base)
        return line, f"{moved} moved and {still} did not"
    suspects = _find_suspects(line, series.nights[max(0, place - 1)], series.nights[place])
    return "shared", f"{suspects} drifted, not your branch: the ratio of the two is stable"


def _find_suspects(line: Line, before: Night, after: Night) -> str:
    """Return the possible causes of a shared change: the machine, and the code or JAX if it has changed."""
    commits, versions = ([getattr(night, f"{line}_{key}") for night in (before, after)] for key in ("commit", "jax"))
    suspects = ["the machine"]
    if commits[0] != commits[1]:
        suspects.append("what both arms share")
    if versions[0] != versions[1]:
        suspects.append(f"JAX ({versions[0]} became {versions[1]})")
    return " or ".join(suspects)


def _has_change_near(line: LineTrend, place: int) -> bool:
    return any(abs(line.nights[change.index] - place) <= NEAR_NIGHTS for change in line.trend.changes)


def _is_worse(better: str, change: Change) -> bool | None:
    if better == "equal":
        return None
    return (change.after > change.before) == (better == "lower")


def _notes(series: Series, lines: dict[Line, LineTrend]) -> list[str]:
    notes = []
    names = {"baseline": series.baseline_arm, "candidate": series.candidate_arm, "ratio": "the ratio"}
    for name, line in lines.items():
        if line.trend.drift is not None:
            notes.append(f"{names[name]} drifts: {_show_drift(line.trend.drift, series, name)}")
    base, ratio = lines["baseline"].trend, lines["ratio"].trend
    if base.drift is not None and ratio.drift is None and not ratio.changes:
        notes.append(f"machine or {series.baseline_arm} drifted, not your branch: the ratio of the two is stable")
    if lines["ratio"].trend.too_few:
        count = len(lines["ratio"].nights)
        notes.append(
            f"{count} night{'' if count == 1 else 's'}: a change of level needs three before and three after it"
        )
    return notes


def _show_drift(drift: Drift, series: Series, line: Line) -> str:
    unit = "" if line == "ratio" or not series.unit else f" {series.unit}"
    return f"{drift.slope:+.3g}{unit} a night, 95 % from {drift.low:+.3g} to {drift.high:+.3g}"
