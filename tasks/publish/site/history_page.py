"""Turns judged series into one static page: the changes of level with their commits, then a row of charts per case."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from configs.comparison import list_names, load_comparison
from configs.read import CONFIG_ROOT
from tasks.bisect.questions import KNOWN
from tasks.history.describe_series import show_event, show_time
from tasks.history.judge_series import Event, Judged, Line
from tasks.history.series import Night, Series
from tasks.metrics.maxview_metrics import FINAL_LOSS
from tasks.metrics.program_metrics import MEMORY
from tasks.metrics.table import METRICS
from tasks.metrics.time_metrics import FIRST_STEP, STEP_TIME
from tasks.publish.content.templating import load_assets, make_environment
from tasks.publish.site.index import HISTORY, PAGE, add_history, parse_index
from tasks.publish.site.index_page import link_home, update_index
from tasks.records import Commit
from tasks.resolve.commits_between import list_commits
from tasks.store import Store, write_atomically

SIDES: tuple[Line, ...] = ("baseline", "candidate")
HEIGHT = 40.0  # of a chart, whose width is 100
EDGE = 4.0  # from a chart's border to its highest and lowest value
LEAST_REACH = 0.02  # of a chart, relative, up and down: less would draw noise as mountains
# the main metrics of a case: shown without a click
MAIN = (STEP_TIME.quick, *(metric.name for metric in (STEP_TIME, FINAL_LOSS, MEMORY, FIRST_STEP)))
TITLES = {metric.name: metric.middle or metric.title for metric in METRICS}
TITLES |= {metric.quick: metric.title for metric in METRICS if metric.quick}

OPEN_ROWS = 20  # cases whose charts are shown at once; the pairs after them are folded
TICKS = 3  # dates of the axis

type Group = tuple[str, str, str]  # comparison, pair of refs, target
type Places = dict[str, float]  # x of the nights of a case in percent, by the ids of their comparisons


def write_history_page(judged: Sequence[Judged], store: Store) -> Path | None:
    """Write `history.html` at the top of the store; returns its path. Series of one pair of refs are grouped.

    Of a bucket that may only be read the page stays in the working copy; in such a folder there can be none: None.
    """
    if not store.writable and store.mirror is None:
        return None
    drawn = Drawn(pages=_find_pages(store), died=_find_deaths(store), days=_find_days(judged))
    groups: dict[Group, list[Judged]] = {}
    for item in judged:
        groups.setdefault((item.series.comparison, item.series.pair, item.series.target), []).append(item)
    html = (
        make_environment(title_of=title_of)
        .get_template("history.html.j2")
        .render(
            groups=list(_groups(groups, drawn)),
            ticks=drawn.ticks(),
            metrics=sorted({item.series.metric for item in judged}, key=_order),
            changes=list(_changes(groups, drawn, store)),
            data={"rows": drawn.rows, "charts": drawn.charts},
            **load_assets("site.js", "history.js"),
            home=PAGE if store.mirror is None else link_home(store),
        )
    )
    page = write_atomically(store.path / HISTORY, html)
    if store.writable:
        store.push(page)
        update_index(store, add_history)
    return page


@dataclass
class Drawn:
    """The data of the page's script: the store's pages, and the link of every point."""

    pages: dict[str, str]
    died: set[str]
    days: list[str]  # the columns of every chart
    rows: list[list[tuple[str, str, str, float]]] = field(
        default_factory=list
    )  # per case: page, day, verdict and x of each night
    charts: list[tuple[int, list[float | None], list[float | None]]] = field(default_factory=list)  # row, both arms

    def place(self, nights: Sequence[Night]) -> Places:
        """Return the x of each night; the nights of one day share the day's column."""
        of_day: dict[str, list[Night]] = {}
        for night in nights:
            of_day.setdefault(show_time(night), []).append(night)
        return {
            night.comparison_id: round(100 * (self.days.index(day) + (at + 0.5) / len(found)) / len(self.days), 2)
            for day, found in of_day.items()
            for at, night in enumerate(found)
        }

    def ticks(self) -> list[tuple[float, str, str]]:
        """Return x in percent, day and text anchor of each date of the axis; the year only if it varies."""
        last = len(self.days) - 1
        places = sorted({round(last * at / (TICKS - 1)) for at in range(TICKS)}) if self.days else []
        anchors = {0: "start", last: "end"} if last > 0 else {}
        one_year = len({day[:4] for day in self.days}) == 1
        return [
            (
                round(100 * (place + 0.5) / (last + 1), 2),
                self.days[place][5 if one_year else 0 :],
                anchors.get(place, "middle"),
            )
            for place in places
            if one_year or place in anchors
        ]


def _find_days(judged: Sequence[Judged]) -> list[str]:
    return sorted({show_time(night) for item in judged for night in item.series.nights})


def _groups(
    groups: dict[Group, list[Judged]], drawn: Drawn
) -> Iterator[tuple[str, list[dict[str, Any]], list[str], bool]]:
    """Yield name, tables and notes of each pair of refs, and whether its charts are shown at once."""
    cases = 0
    for group, items in sorted(groups.items(), key=_longest_first):
        before, cases = cases, cases + len({item.series.case for item in items})
        tables = [table for table in _tables(items, drawn) if table["rows"]]
        yield " · ".join(filter(None, group)), tables, list(_notes(items)), not before or cases <= OPEN_ROWS


def _longest_first(group: tuple[Group, list[Judged]]) -> int:
    """Return a sort key: pairs with long series before those that were compared once."""
    return -max(len(item.series.nights) for item in group[1])


def _notes(items: Sequence[Judged]) -> Iterator[str]:
    """Return the notes on the main metrics, each with its cases, and with its metric if there is one."""
    found: dict[str, list[Judged]] = {}
    for item in items:
        for note in item.notes if item.series.metric in MAIN else ():
            found.setdefault(note, []).append(item)
    for note, about in found.items():
        titles = {title_of(item.series.metric) for item in about}
        cases = ", ".join(dict.fromkeys(item.series.case for item in about))
        yield f"{cases}{f' · {titles.pop()}' if len(titles) == 1 else ''}: {note}"


def title_of(metric: str) -> str:
    """Return the displayed name of a metric."""
    return TITLES.get(metric, metric.replace("_", " "))


def _find_pages(store: Store) -> dict[str, str]:
    """Return the link to the page of every comparison, by its name in the store: a relative one, or in the bucket."""
    beside = store.mirror is None or store.writable
    names = [entry.name for entry in store.files.entries("comparisons", "comparisons/*/*/*/index.html")]
    return {name: quote(name) if beside else store.link_to(store.path / name) for name in names}


def _find_deaths(store: Store) -> set[str]:
    """Return the pages of the comparisons with a dead arm, by their names in the index."""
    index = parse_index(store.files.read(PAGE).decode("utf-8", "replace")) if store.files.stat(PAGE) else None
    return {item.page for item in index.comparisons if item.died} if index else set()


def _changes(groups: dict[Group, list[Judged]], drawn: Drawn, store: Store) -> Iterator[dict[str, Any]]:
    """Return the changes, the latest first: all metrics that moved in a case on a night are one change."""
    found: dict[tuple[Group, str, str], list[tuple[Judged, Event]]] = {}
    for group, items in groups.items():
        for item in items:
            for event in item.events:
                key = (group, item.series.case, event.after.comparison_id)
                found.setdefault(key, []).append((item, event))
    for (group, case, _), moved in sorted(found.items(), key=lambda pair: show_time(pair[1][0][1].after), reverse=True):
        moved.sort(key=lambda pair: (_order(pair[0].series.metric), pair[1].line == "ratio"))
        item, event = moved[0]
        metrics = dict.fromkeys(title_of(other.series.metric) for other, _ in moved)
        yield {
            "word": _word(event),
            "when": show_time(event.after),
            "is_new": show_time(event.after) == drawn.days[-1],
            "cause": event.meaning,
            "page": drawn.pages.get(_page(item.series, event.after)),
            "case": case,
            "group": " · ".join(filter(None, group)),
            "id": _anchor(item),
            "title": next(iter(metrics)),
            "levels": f"{event.change.before:.4g} → {event.change.after:.4g}",
            "unit": item.series.unit if event.line != "ratio" else "",
            "relative": event.change.relative,
            "besides": list(metrics)[1:],
            "events": [(title_of(other.series.metric), show_event(event, other.series)) for other, event in moved],
            "commits": (commits := _commits_between(item, event, store)),
            "bisect": _offer_bisection(item, commits),
        }


def _offer_bisection(item: Judged, commits: dict[str, Any]) -> str:
    """Return the command that finds the commit, if the arms are refs and several commits lie between the nights."""
    series = item.series
    if len(commits["list"]) < 2 or series.comparison not in _with_refs():
        return ""
    words = ["maxview", "bisect", series.comparison, "--good", commits["before"], "--bad", commits["after"]]
    words += ["--case", series.case, "--target", series.target]
    metric = ["--metric", KNOWN[series.metric]] if series.metric in KNOWN else []
    return shlex.join([*words, *metric])


@cache
def _with_refs() -> frozenset[str]:
    """Return the comparisons whose arms are refs."""
    return frozenset(name for name in list_names("comparisons") if load_comparison(name).has_refs)


def _order(metric: str) -> tuple[int, str]:
    return (MAIN.index(metric) if metric in MAIN else len(MAIN), metric)


def _commits_between(item: Judged, event: Event, store: Store) -> dict[str, Any]:
    """Return the commits between two nights of the side that moved: from the local clone, else the ones that only the
    later comparison names."""
    side = "baseline" if event.line == "baseline" or event.cause == "baseline" else "candidate"
    before, after = (getattr(night, f"{side}_commit") for night in (event.before, event.after))
    shown: dict[str, Any] = {
        "before": (before or "")[:9],
        "after": (after or "")[:9],
        "list": (),
        "same": before == after,
    }
    if before and after and before != after:
        shown["list"] = list_commits(CONFIG_ROOT.parent, before, after) or tuple(
            commit
            for commit in _named(item, event.after, side, store)
            if commit.sha not in {other.sha for other in _named(item, event.before, side, store)}
        )
    return shown


def _named(item: Judged, night: Night, side: str, store: Store) -> Iterable[Commit]:
    """Return the commits of one side that the record of a night's comparison names."""
    series = item.series
    record = store.comparison(series.comparison, series.case, night.comparison_id).read_comparison()
    return () if record is None else record.commits.get(getattr(record, side).name, ())


def _tables(items: Sequence[Judged], drawn: Drawn) -> Iterator[dict[str, Any]]:
    """Return a row of charts per case: the main metrics, then all others."""
    nights: dict[str, dict[str, Night]] = {}
    for item in items:
        nights.setdefault(item.series.case, {}).update((night.comparison_id, night) for night in item.series.nights)
    places: dict[str, Places] = {}
    for case, found in nights.items():
        inside = sorted(found.values(), key=lambda night: (show_time(night), night.comparison_id))
        series = next(item.series for item in items if item.series.case == case)
        places[case] = drawn.place(inside)
        drawn.rows.append(
            [
                (
                    drawn.pages.get(_page(series, night), ""),
                    show_time(night),
                    night.verdict or "",
                    places[case][night.comparison_id],
                )
                for night in inside
            ]
        )
    row_of = {case: len(drawn.rows) - len(nights) + number for number, case in enumerate(nights)}
    for main in (True, False):
        metrics = sorted({i.series.metric for i in items if (i.series.metric in MAIN) is main}, key=_order)
        rows: dict[str, dict[str, Any]] = {}
        for item in items:
            if item.series.metric in metrics:
                rows.setdefault(item.series.case, {})[item.series.metric] = _cell(
                    item, row_of[item.series.case], places[item.series.case], drawn
                )
        units = {i.series.metric: i.series.unit for i in items}
        yield {"main": main, "metrics": [(metric, units[metric]) for metric in metrics], "rows": rows}


def _anchor(item: Judged) -> str:
    """Return the anchor of a series' chart."""
    return quote(
        "-".join(
            ("series", *item.series.model_dump(include={"comparison", "pair", "case", "target", "metric"}).values())
        ),
        safe="",
    )


def _page(series: Series, night: Night) -> str:
    """Return the name of a night's page in the store."""
    return f"comparisons/{series.comparison}/{series.case}/{night.comparison_id}/index.html"


def _cell(item: Judged, row: int, places: Places, drawn: Drawn) -> dict[str, Any]:
    series, latest = item.series, item.series.nights[-1]
    last = item.events[-1] if item.events else None
    page = _page(series, latest)
    drawn.charts.append((row, _values(series, "baseline", places), _values(series, "candidate", places)))
    return {
        "id": _anchor(item),
        "chart": len(drawn.charts) - 1,
        "nights": len(series.nights),
        "when": show_time(latest),
        "value": "" if latest.candidate is None else f"{latest.candidate:.4g}",
        "died": page in drawn.died,
        "page": drawn.pages.get(page),
        "last": last and {"word": _word(last), "relative": last.change.relative},
        "lines": list(_lines(series, places)),
        "axis": [(y, f"{value:.4g}") for y, value in zip((EDGE, HEIGHT - EDGE), _ends(series)[::-1], strict=True)],
        "changes": [
            {
                "x": round((places[event.before.comparison_id] + places[event.after.comparison_id]) / 2, 2),
                "word": _word(event),
            }
            for event in item.events
        ],
    }


def _values(series: Series, side: Line, places: Places) -> list[float | None]:
    """Return the medians of an arm, one per night of the row."""
    found = {night.comparison_id: getattr(night, side) for night in series.nights}
    return [None if found.get(night) is None else float(f"{found[night]:.4g}") for night in places]


def _word(event: Event) -> str:
    if event.worse is None or event.cause == "shared":
        return "unknown"
    return "regressed" if event.worse else "improved"


def _ends(series: Series) -> tuple[float, float]:
    """Return the limits of a chart's axis: all medians of both arms, at least LEAST_REACH around their middle."""
    values = [one for night in series.nights for one in (night.baseline, night.candidate) if one is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    middle = (low + high) / 2
    reach = max((high - low) / 2, abs(middle) * LEAST_REACH) or 1.0
    return middle - reach, middle + reach


def _lines(series: Series, places: Places) -> Iterator[tuple[Line, str]]:
    """Return the points of both arms' medians."""
    low, high = _ends(series)
    for side in SIDES:
        points = [
            f"{places[night.comparison_id]},{EDGE + (HEIGHT - 2 * EDGE) * (high - value) / (high - low):.1f}"
            for night in series.nights
            if (value := getattr(night, side)) is not None
        ]
        yield side, " ".join(points)
