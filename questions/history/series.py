"""Groups the rows of the history into series, and finds the changes of level in each series and their likely causes.

A series contains the values of one metric of one case over time. A night is one comparison: it has a value of the
baseline, of the candidate and of their ratio. Changes are searched in each of these three lines separately. An event is
one change in one line, with its cause. An arm is one of the two compared versions.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

import polars as pl

from configs.frozen import Frozen
from questions.history.change_points import Change, Drift, Trend, find_trend
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import STEP_TIME

type Line = Literal["baseline", "candidate", "ratio"]
type Cause = Literal["candidate", "shared", "baseline", "both"]

LINES: tuple[Line, ...] = ("baseline", "candidate", "ratio")
NEAR_NIGHTS = 2  # changes of two lines up to this many nights apart have one cause
MIN_CHANGE = 0.005  # relative; smaller changes are irrelevant
KEYS = ("comparison", "pair", "case", "target", "metric")
STEP_TIMES = (STEP_TIME.name, STEP_TIME.quick)
# metrics whose changes have the cause of the step time's change
FOLLOWERS = frozenset(metric.name for metric in METRICS if metric.verdict_of == STEP_TIME.name)


class Night(Frozen):
    """The values of one metric in one comparison: each arm's median over its runs. None: missing or unknown."""

    comparison_id: str
    time: datetime | None  # start of its first run; None if unknown
    baseline: float | None
    candidate: float | None
    runs: tuple[int, int]  # number of runs of the baseline and of the candidate
    baseline_commit: str | None
    candidate_commit: str | None
    baseline_jax: str | None
    candidate_jax: str | None
    verdict: str | None  # on this metric
    same_program: bool  # as in HISTORY_SCHEMA

    @property
    def ratio(self) -> float | None:
        """The candidate's value divided by the baseline's; None if one is missing or the baseline is 0."""
        if self.baseline is None or self.candidate is None or not self.baseline:
            return None
        return self.candidate / self.baseline


class Series(Frozen):
    """The values of one metric over time, for one named comparison, pair of refs, case and target."""

    comparison: str
    pair: str = ""  # "main → feat/x"; empty in rows of older versions
    case: str
    target: str
    metric: str
    unit: str
    better: str
    baseline_arm: str
    candidate_arm: str
    nights: tuple[Night, ...]  # the oldest first


def find_series(
    history: pl.DataFrame,
    *,
    case: str | None = None,
    target: str | None = None,
    since: datetime | None = None,
) -> list[Series]:
    """Return the matching series, sorted by comparison, pair of refs, case, target and metric.

    Omits runs outside of any comparison, and values that are not finite. Arguments that are None or empty do not
    restrict the series.
    """
    chosen = history.filter(~pl.col("comparison_id").str.starts_with("run-"), pl.col("value").is_finite())
    chosen = chosen.with_columns(pl.col("pair").fill_null(""))
    if case is not None:
        chosen = chosen.filter(pl.col("case") == case)
    if target is not None:
        chosen = chosen.filter(pl.col("target") == target)
    if since is not None:
        chosen = chosen.filter(pl.col("time") >= since)
    sides = (
        chosen.group_by([*KEYS, "comparison_id", "role"], maintain_order=True)
        .agg(
            pl.col("time").min(),
            pl.col("value").median(),
            pl.len().alias("runs"),
            pl.col("arm", "commit", "jax", "verdict", "same_program", "unit", "better").first(),
        )
        .sort([*KEYS, "time", "comparison_id"], maintain_order=True)
    )
    found = []
    for keys, rows in sides.group_by(KEYS, maintain_order=True):
        found.append(_series(dict(zip(KEYS, map(str, keys), strict=True)), rows))
    return found


def _series(keys: dict[str, str], rows: pl.DataFrame) -> Series:
    nights: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        nights.setdefault(row["comparison_id"], {})[row["role"]] = row
    last = rows.row(-1, named=True)
    arms = {row["role"]: row["arm"] for row in rows.iter_rows(named=True)}  # names in the newest rows
    return Series(
        **keys,
        unit=last["unit"] or "",
        better=last["better"] or "equal",
        baseline_arm=arms.get("baseline", ""),
        candidate_arm=arms.get("candidate", ""),
        nights=tuple(_night(id, night) for id, night in nights.items()),
    )


def _night(id: str, sides: dict[str, dict[str, Any]]) -> Night:
    left, right = sides.get("baseline", {}), sides.get("candidate", {})
    either = left or right
    times = [side["time"] for side in (left, right) if side and side["time"] is not None]
    return Night(
        comparison_id=id,
        time=min(times, default=None),
        baseline=left.get("value"),
        candidate=right.get("value"),
        runs=(left.get("runs", 0), right.get("runs", 0)),
        baseline_commit=left.get("commit"),
        candidate_commit=right.get("commit"),
        baseline_jax=left.get("jax"),
        candidate_jax=right.get("jax"),
        verdict=either["verdict"],
        same_program=bool(either["same_program"]),
    )


class Event(Frozen):
    """One change of level of the baseline, the candidate or the ratio."""

    line: Line
    change: Change
    before: Night  # the night with a value before `after`; may be an outlier
    after: Night  # first night of the new level
    worse: bool | None  # None: neither higher nor lower values are better
    cause: Cause
    meaning: str  # a sentence about the cause


class LineTrend(Frozen):
    """The trend of the baseline, the candidate or the ratio, over the nights that have a value."""

    trend: Trend  # its indices are indices of `nights`
    nights: tuple[int, ...]  # for each value, the index of its night in the series


class JudgedSeries(Frozen):
    """A series with the trends of its three lines, all changes sorted by night, and notes."""

    series: Series
    lines: dict[Line, LineTrend]
    events: tuple[Event, ...]
    notes: tuple[str, ...]  # sentences about drifts, and about too few nights


def judge_history(found: Sequence[Series], metrics: Sequence[str] = ()) -> list[JudgedSeries]:
    """Judge series that belong together; return those of `metrics`, or all of them if it is empty.

    A change of a metric that follows from the step time (FOLLOWERS) has the cause of the step time's change near it,
    if there is one.
    """
    judged = [judge(series) for series in found]
    leading: dict[tuple[str, ...], list[JudgedSeries]] = {}
    for item in judged:
        if item.series.metric in STEP_TIMES:
            leading.setdefault(_place(item.series), []).append(item)
    return [
        _follow(item, leading.get(_place(item.series), ())) if item.series.metric in FOLLOWERS else item
        for item in judged
        if not metrics or item.series.metric in metrics
    ]


def _place(series: Series) -> tuple[str, ...]:
    """Return the values of KEYS except the metric."""
    return series.comparison, series.pair, series.case, series.target


def _follow(item: JudgedSeries, leading: Sequence[JudgedSeries]) -> JudgedSeries:
    """Return the series with the causes of the changes of `leading`, the series of the step times, where they are near.

    Of several near changes, one of the same line comes first, then one of the ratio.
    """
    order = [night.comparison_id for night in item.series.nights]
    events = []
    for event in item.events:
        near = [
            other
            for one in leading
            for other in one.events
            if other.after.comparison_id in order
            and abs(order.index(other.after.comparison_id) - order.index(event.after.comparison_id)) <= NEAR_NIGHTS
        ]
        near.sort(key=lambda other: (other.line != event.line, other.line != "ratio"))
        changes = near[0].model_dump(include={"cause", "meaning"}) if near else {}
        events.append(event.replace(**changes))
    return item.replace(events=tuple(events))


def judge(series: Series) -> JudgedSeries:
    """Find the trends of the baseline, the candidate and their ratio, and the changes in them with their causes."""
    lines = {line: _find_trend(series, line) for line in LINES}
    events = [event for line in LINES for event in _events(series, line, lines)]
    events.sort(key=lambda event: (series.nights.index(event.after), LINES.index(event.line)))
    return JudgedSeries(series=series, lines=lines, events=tuple(events), notes=tuple(_notes(series, lines)))


def _find_trend(series: Series, line: Line) -> LineTrend:
    found = [(i, value) for i, night in enumerate(series.nights) if (value := getattr(night, line)) is not None]
    trend = find_trend([value for _, value in found], least_change=MIN_CHANGE)
    return LineTrend(trend=trend, nights=tuple(i for i, _ in found))


def _events(series: Series, line: Line, lines: dict[Line, LineTrend]) -> Iterator[Event]:
    nights = lines[line].nights
    for change in lines[line].trend.changes:
        place = nights[change.index]
        cause, meaning = _explain(series, line, place, lines)
        yield Event(
            line=line,
            change=change,
            before=series.nights[nights[change.index - 1]],
            after=series.nights[place],
            worse=None if series.better == "equal" else (change.after > change.before) == (series.better == "lower"),
            cause=cause,
            meaning=meaning,
        )


def _explain(series: Series, line: Line, place: int, lines: dict[Line, LineTrend]) -> tuple[Cause, str]:
    """Return the cause of a line's change at the night with index `place`, and a sentence about the cause.

    If an arm's values changed, but the ratio did not, the cause is "shared": it affects both arms."""
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
    """Return the possible causes of a shared change: the machine, and the code and JAX if their versions differ."""
    commits, versions = ([getattr(night, f"{line}_{key}") for night in (before, after)] for key in ("commit", "jax"))
    suspects = ["the machine"]
    if commits[0] != commits[1]:
        suspects.append("what both arms share")
    if versions[0] != versions[1]:
        suspects.append(f"JAX ({versions[0]} became {versions[1]})")
    return " or ".join(suspects)


def _has_change_near(line: LineTrend, place: int) -> bool:
    return any(abs(line.nights[change.index] - place) <= NEAR_NIGHTS for change in line.trend.changes)


def _notes(series: Series, lines: dict[Line, LineTrend]) -> list[str]:
    notes = []
    names = {"baseline": series.baseline_arm, "candidate": series.candidate_arm, "ratio": "the ratio"}
    for name, line in lines.items():
        if line.trend.drift is not None:
            notes.append(f"{names[name]} drifts: {_show_drift(line.trend.drift, series, name)}")
    base, ratio = lines["baseline"].trend, lines["ratio"].trend
    # of a metric that follows from the step time, the step time's series has the cause
    if base.drift is not None and ratio.drift is None and not ratio.changes and series.metric not in FOLLOWERS:
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
