"""Formats series and their changes of level for terminal and JSON: bars, sentences, next command.

A series has three lines: a metric's values on the baseline arm, on the candidate arm, and their ratio. A night is one
comparison and has up to one value per line. An arm is one of the two compared versions.
"""

import shlex
from collections.abc import Sequence
from typing import Any

from configs.names import list_names
from configs.topologies import TOPOLOGIES
from questions.history.series import Event, JudgedSeries, Line, Night, Series
from tasks.diff.compare_logs import INGEST

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 30  # number of nights shown as bars


def draw_trend(values: Sequence[float]) -> str:
    """Return the last WIDTH values as bars, scaled between their extremes; equal values have half the height."""
    shown = list(values)[-WIDTH:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    if high - low <= 1e-9 * max(abs(high), abs(low)):
        return BARS[3] * len(shown)
    return "".join(BARS[round((value - low) / (high - low) * (len(BARS) - 1))] for value in shown)


def show_event(event: Event, series: Series) -> str:
    """Return a sentence about one change: date, line, levels, commits and cause."""
    change = event.change
    unit = f" {series.unit}" if series.unit and event.line != "ratio" else ""
    size = ""
    if change.relative is not None:
        low, high = (100 * bound / abs(change.before) for bound in (change.low, change.high))
        interval = "" if change.p == 0 else f", 95 % from {low:+.1f} to {high:+.1f} %"
        size = f" ({100 * change.relative:+.1f} %{interval})"
    commits = _describe_commits(event)
    levels = f"{change.before:.4g} → {change.after:.4g}{unit}{size}{f', {commits}' if commits else ''}"
    return f"{show_date(event.after)}: {name_line(event.line, series)} {levels}: {event.meaning}"


def name_line(line: Line, series: Series) -> str:
    """Return the name of a line: its arm or, for the ratio, `candidate / baseline` with the names of the arms."""
    names = {"baseline": series.baseline_arm, "candidate": series.candidate_arm}
    return names.get(line) or f"{series.candidate_arm} / {series.baseline_arm}"


def show_date(night: Night) -> str:
    """Return the night's date, or `undated`."""
    return night.time.strftime("%Y-%m-%d") if night.time else "undated"


def _describe_commits(event: Event) -> str:
    """Return a text with the commits of the nights before and after a change, as far as they are known.

    For the ratio, the text has the commits of both arms; otherwise it has those of the line's arm.
    """
    texts = []
    for side in ("baseline", "candidate"):
        if event.line not in (side, "ratio"):
            continue
        before, after = (getattr(night, f"{side}_commit") for night in (event.before, event.after))
        if before and after and before != after:
            texts.append(f"between {before[:9]} and {after[:9]}")
        elif before and before == after:
            texts.append(f"both nights at {before[:9]}")
    return " and ".join(dict.fromkeys(texts))


def next_of_series(judged: Sequence[JudgedSeries]) -> str:
    """Return the most useful command to type next."""
    worse = [(item, event) for item in judged for event in item.events if event.worse and event.cause != "shared"]
    if worse:
        item, event = max(worse, key=lambda pair: pair[1].after.time.timestamp() if pair[1].after.time else 0.0)
        if _is_trained_here(item.series):
            return _compare_command(item.series, event)
        series = item.series
        words = ["history", series.case, "--metric", series.metric, "--target", series.target]
        return shlex.join(["maxview", *words])
    rare = next((item.series for item in judged if item.lines["ratio"].trend.too_few), None)
    if rare is not None and _is_trained_here(rare):
        return shlex.join(["maxview", "compare", rare.comparison, "--case", rare.case, "--target", rare.target])
    return "maxview history --json"


def _is_trained_here(series: Series) -> bool:
    """Return whether the runs of a series can be repeated: not for ingested logs, compiles, and unknown targets."""
    known = series.target in list_names("targets") and series.target not in TOPOLOGIES
    return known and series.comparison != INGEST


def _compare_command(series: Series, event: Event) -> str:
    """Return the command that compares the commits before and after a change.

    If the commits are equal or unknown, the command repeats the comparison."""
    side = "baseline" if event.cause == "baseline" else "candidate"
    before, after = (getattr(night, f"{side}_commit") for night in (event.before, event.after))
    if before and after and before != after:
        words = ["maxview", "compare", "main-vs-branch", "--case", series.case, "--target", series.target]
        return shlex.join([*words, "--baseline", before[:12], "--branch", after[:12], "--repeats", "3"])
    return shlex.join(["maxview", "compare", series.comparison, "--case", series.case, "--repeats", "3", "--fresh"])


def series_to_json(judged: JudgedSeries) -> dict[str, Any]:
    """Return a series with its nights, lines, changes and notes for JSON; missing values are null."""
    series = judged.series
    return {
        **series.model_dump(mode="json", exclude={"nights"}),
        "nights": [night.model_dump(mode="json") | {"ratio": night.ratio} for night in series.nights],
        "lines": {
            name: {
                "nights": list(line.nights),
                "outliers": [line.nights[i] for i in line.trend.outliers],
                **line.trend.model_dump(mode="json", include={"drift", "exact", "too_few"}),
            }
            for name, line in judged.lines.items()
        },
        "events": [
            {
                "line": event.line,
                "time": event.after.time.isoformat() if event.after.time else None,
                "commits": {
                    side: [getattr(event.before, f"{side}_commit"), getattr(event.after, f"{side}_commit")]
                    for side in ("baseline", "candidate")
                },
                **event.change.model_dump(mode="json", exclude={"index"}),
                "relative": event.change.relative,
                "worse": event.worse,
                "cause": event.cause,
                "meaning": event.meaning,
            }
            for event in judged.events
        ],
        "notes": list(judged.notes),
    }
