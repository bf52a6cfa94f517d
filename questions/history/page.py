"""Writes the history page: the changes of metrics from night to night with their commits, then charts of each case.

A night is one comparison of a case, as in `history_table.py`: it has one value of a metric for each arm. An arm is
one of the two compared versions.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from configs.comparison import load_comparison
from configs.names import list_names
from configs.read import CONFIG_ROOT
from questions.history.describe_series import show_date, show_event
from questions.history.history_table import load_history
from questions.history.series import Event, JudgedSeries, Line, Night, Series, find_series, judge_history
from tasks.metrics.maxview_metrics import FINAL_LOSS
from tasks.metrics.program_metrics import MEMORY
from tasks.metrics.table import BISECTED_TITLES, METRICS
from tasks.metrics.time_metrics import FIRST_STEP, STEP_TIME
from tasks.publish.content.templating import load_assets, make_environment
from tasks.publish.site.index_files import read_results
from tasks.publish.site.index_page import link_home, write_history
from tasks.records.plan import Commit
from tasks.records.text import show_number
from tasks.resolve.git import list_commits
from tasks.store.store import Store, open_store

HERE = Path(__file__).parent  # with the page's template and script
SIDES: tuple[Line, ...] = ("baseline", "candidate")
HEIGHT = 40.0  # of a chart whose width is 100
EDGE = 4.0  # distance of the highest and the lowest value from the border of a chart, in the same units
MIN_HALF_RANGE = 0.02  # the y axis covers at least ± this share around its middle value, so that noise looks small
# the metrics whose charts are shown without a click
MAIN = (STEP_TIME.quick, *(metric.name for metric in (STEP_TIME, FINAL_LOSS, MEMORY, FIRST_STEP)))
TITLES = {metric.name: metric.middle or metric.title for metric in METRICS}
TITLES |= {metric.quick: metric.title for metric in METRICS if metric.quick}
OPEN_ROWS = 20  # groups after the first are folded if they and the groups above have more cases than this in all

type Group = tuple[str, str, str]  # comparison, pair of refs, target
# whether its metrics are in MAIN; metric -> unit; case -> metric -> values for the template (`Drawing._cell`)
type Table = tuple[bool, dict[str, str], dict[str, dict[str, Any]]]
type Places = dict[str, float]  # comparison id -> x of its night in the charts of a case, in percent


def write_history_page(judged: Sequence[JudgedSeries], store: Store) -> Path | None:
    """Write `history.html` into the store's top folder; return its path. Series of a `Group` are drawn together.

    For a read-only bucket, the page is written only into the local copy. Returns None for a read-only folder.
    """
    if not store.keeps_pages:
        return None
    drawing, groups = Drawing(judged, store), dict[Group, list[JudgedSeries]]()
    for item in judged:
        groups.setdefault((item.series.comparison, item.series.pair, item.series.target), []).append(item)
    html = (
        make_environment(HERE, title_of=title_of)
        .get_template("history.html.j2")
        .render(
            groups=list(drawing.draw_groups(groups)),
            ticks=drawing.ticks(),
            metrics=sorted({item.series.metric for item in judged}, key=_order),
            changes=list(drawing.list_changes(groups)),
            data={"rows": drawing.rows, "charts": drawing.charts},
            **load_assets("site.js", HERE / "history.js"),
            home=link_home(store),
        )
    )
    return write_history(store, html)


def add_history_to_demo(out: str, _tell: Callable[[str], None]) -> None:
    """Write the page of the example site's history. out: the site's address."""
    store = open_store(out)
    write_history_page(judge_history(find_series(load_history(store.files))), store)


class Drawing:
    """Draws the series of a store. `draw_groups` fills `rows` and `charts`, the data of the page's script."""

    def __init__(self, judged: Sequence[JudgedSeries], store: Store):
        self._store = store
        names = [entry.name for entry in store.files.entries("comparisons", "comparisons/*/*/*/index.html")]
        self._pages = {name: quote(name) if store.writable else store.link_to(store.path / name) for name in names}
        self._died = {item.page for item in read_results(store) if item.died}
        self._days = sorted({show_date(night) for item in judged for night in item.series.nights})  # columns of a chart
        # per group and case: page, day and x of each night
        self._cells: dict[str, dict[str, Any]] = {}  # by anchor
        self.rows: list[list[tuple[str, str, float]]] = []
        self.charts: list[tuple[int, *tuple[list[float | None], ...]]] = []  # index in `rows`; values per arm and night

    def ticks(self) -> list[tuple[float, str, str]]:
        """Return (x in percent, date, SVG text anchor) of each label of the axis; the dates omit a common year."""
        if not self._days:
            return []
        last, one_year = len(self._days) - 1, len({day[:4] for day in self._days}) == 1
        anchors = {round(last / 2): "middle"} if one_year else {}
        anchors |= {0: "start", last: "end"} if last else {}
        return [
            (round(100 * (place + 0.5) / (last + 1), 2), self._days[place][5 if one_year else 0 :], anchor)
            for place, anchor in sorted(anchors.items())
        ]

    def draw_groups(
        self, groups: dict[Group, list[JudgedSeries]]
    ) -> Iterator[tuple[str, list[Table], list[str], bool]]:
        """Yield name, tables and notes of each group, and whether its charts are unfolded at first.

        Groups are ordered by their longest series, the longest first.
        """
        cases = 0
        for group, items in sorted(groups.items(), key=lambda pair: -max(len(item.series.nights) for item in pair[1])):
            before, cases = cases, cases + len({item.series.case for item in items})
            yield _name(group), list(self._tables(items)), list(_notes(items)), not before or cases <= OPEN_ROWS

    def _tables(self, items: Sequence[JudgedSeries]) -> Iterator[Table]:
        """Yield the table of the main metrics, then the table of all others."""
        cases: dict[str, list[Series]] = {}
        for item in items:
            cases.setdefault(item.series.case, []).append(item.series)
        rows = {case: self._row(found) for case, found in cases.items()}
        for main in (True, False):
            chosen = [item for item in items if (item.series.metric in MAIN) is main]
            units = {item.series.metric: item.series.unit for item in chosen}
            cells: dict[str, dict[str, Any]] = {}
            for item in chosen:
                cells.setdefault(item.series.case, {})[item.series.metric] = self._cell(item, *rows[item.series.case])
            yield main, {metric: units[metric] for metric in sorted(units, key=_order)}, cells

    def _row(self, series: Sequence[Series]) -> tuple[int, Places]:
        """Add the nights of a case to `rows`; return the index of the new row, and the x of each night.

        Nights of the same day share one column.
        """
        nights = {night.comparison_id: night for one in series for night in one.nights}
        ordered = sorted(nights.values(), key=lambda night: (show_date(night), night.comparison_id))
        of_day = {day: list(found) for day, found in groupby(ordered, show_date)}
        places = {
            night.comparison_id: round(100 * (self._days.index(day) + (at + 0.5) / len(found)) / len(self._days), 2)
            for day, found in of_day.items()
            for at, night in enumerate(found)
        }
        self.rows.append([(self._link(series[0], n), show_date(n), places[n.comparison_id]) for n in ordered])
        return len(self.rows) - 1, places

    def _cell(self, item: JudgedSeries, row: int, places: Places) -> dict[str, Any]:
        series, latest, last = item.series, item.series.nights[-1], item.events[-1] if item.events else None
        values = [{night.comparison_id: getattr(night, side) for night in series.nights} for side in SIDES]
        shown = [{night: value for night, value in line.items() if value is not None} for line in values]
        low, high = _ends([value for line in shown for value in line.values()])
        lines = [
            " ".join(
                f"{places[n]},{EDGE + (HEIGHT - 2 * EDGE) * (high - v) / (high - low):.1f}" for n, v in line.items()
            )
            for line in shown
        ]
        self.charts.append(
            (row, *([float(f"{line[night]:.4g}") if night in line else None for night in places] for line in shown))
        )
        self._cells[_anchor(series)] = cell = {
            "id": _anchor(series),
            "chart": len(self.charts) - 1,
            "nights": len(series.nights),
            "when": show_date(latest),
            "value": "" if latest.candidate is None else show_number(latest.candidate),
            "died": _page(series, latest) in self._died,
            "page": self._link(series, latest),
            "last": last and {"word": _word(last), "relative": last.change.relative},
            "lines": list(zip(SIDES, lines, strict=True)),
            "axis": [(EDGE, show_number(high)), (HEIGHT - EDGE, show_number(low))],
            "changes": [
                (round((places[event.before.comparison_id] + places[event.after.comparison_id]) / 2, 2), _word(event))
                for event in item.events
            ],
        }
        return cell

    def _link(self, series: Series, night: Night) -> str:
        return self._pages.get(_page(series, night), "")

    def list_changes(self, groups: dict[Group, list[JudgedSeries]]) -> Iterator[dict[str, Any]]:
        """Yield the changes, the latest first, after `draw_groups`.

        Metrics of a group and case that changed on one night are one change.
        """
        found: dict[tuple[Group, str, str], list[tuple[JudgedSeries, Event]]] = {}
        for group, items in groups.items():
            for item in items:
                for event in item.events:
                    found.setdefault((group, item.series.case, event.after.comparison_id), []).append((item, event))
        for (group, case, _), moved in sorted(
            found.items(), key=lambda one: show_date(one[1][0][1].after), reverse=True
        ):
            moved.sort(key=lambda pair: (_order(pair[0].series.metric), pair[1].line == "ratio"))
            item, event = moved[0]
            title, *besides = dict.fromkeys(title_of(other.series.metric) for other, _ in moved)
            yield {
                "word": _word(event),
                "when": show_date(event.after),
                "is_new": show_date(event.after) == self._days[-1],
                "cause": event.meaning,
                "page": self._link(item.series, event.after),
                "case": case,
                "group": _name(group),
                "cell": self._cells[_anchor(item.series)],
                "title": title,
                "levels": f"{show_number(event.change.before)} → {show_number(event.change.after)}",
                "unit": item.series.unit if event.line != "ratio" else "",
                "relative": event.change.relative,
                "besides": besides,
                "events": [(title_of(other.series.metric), show_event(event, other.series)) for other, event in moved],
                "commits": (commits := self._commits_between(item.series, event)),
                "bisect": _offer_bisection(item.series, commits),
            }

    def _commits_between(self, series: Series, event: Event) -> dict[str, Any]:
        """Return the commits of one side on two nights, and the list of commits between them.

        The side is the baseline if it changed, else the candidate. The list is read from the local clone. If the clone
        lacks the commits, the list has the commits in the later comparison's record that the earlier record lacks.
        """
        side = "baseline" if event.line == "baseline" or event.cause == "baseline" else "candidate"
        before, after = (getattr(night, f"{side}_commit") or "" for night in (event.before, event.after))
        commits: tuple[Commit, ...] = ()
        if before and after and before != after:
            known = {commit.sha for commit in self._recorded(series, event.before, side)}
            commits = tuple(list_commits(CONFIG_ROOT.parent, before, after)) or tuple(
                commit for commit in self._recorded(series, event.after, side) if commit.sha not in known
            )
        return {"before": before[:9], "after": after[:9], "list": commits, "same": before == after}

    def _recorded(self, series: Series, night: Night, side: str) -> Iterable[Commit]:
        """Return the commits of one side in the record of a night's comparison; empty if the record is missing."""
        record = self._store.comparison(series.comparison, series.case, night.comparison_id).read_comparison()
        return () if record is None else record.commits.get(getattr(record, side).name, ())


def title_of(metric: str) -> str:
    """Return the displayed name of a metric."""
    return TITLES.get(metric, metric.replace("_", " "))


def _name(group: Group) -> str:
    return " · ".join(filter(None, group))


def _notes(items: Sequence[JudgedSeries]) -> Iterator[str]:
    """Yield each note on the main metrics with its cases, and with the metric if the note concerns only one metric."""
    found: dict[str, list[Series]] = {}
    for item in items:
        for note in item.notes if item.series.metric in MAIN else ():
            found.setdefault(note, []).append(item.series)
    for note, about in found.items():
        titles = {title_of(series.metric) for series in about}
        cases = ", ".join(dict.fromkeys(series.case for series in about))
        yield f"{cases}{f' · {titles.pop()}' if len(titles) == 1 else ''}: {note}"


def _offer_bisection(series: Series, commits: dict[str, Any]) -> str:
    """Return the `maxview bisect` command; empty unless the arms are refs and several commits are listed."""
    if len(commits["list"]) < 2 or series.comparison not in _with_refs():
        return ""
    words = ["maxview", "bisect", series.comparison, "--good", commits["before"], "--bad", commits["after"]]
    words += ["--case", series.case, "--target", series.target]
    return shlex.join(
        [*words, "--metric", BISECTED_TITLES[series.metric]] if series.metric in BISECTED_TITLES else words
    )


@cache
def _with_refs() -> frozenset[str]:
    """Return the names of the comparisons whose arms are refs."""
    return frozenset(name for name in list_names("comparisons") if load_comparison(name).has_refs)


def _order(metric: str) -> tuple[int, str]:
    return (MAIN.index(metric) if metric in MAIN else len(MAIN), metric)


def _anchor(series: Series) -> str:
    """Return the anchor of a series' chart."""
    parts = ("series", series.comparison, series.pair, series.case, series.target, series.metric)
    return quote("-".join(parts), safe="")


def _page(series: Series, night: Night) -> str:
    """Return the path of a night's page in the store."""
    return f"comparisons/{series.comparison}/{series.case}/{night.comparison_id}/index.html"


def _word(event: Event) -> str:
    if event.worse is None or event.cause == "shared":
        return "unknown"
    return "regressed" if event.worse else "improved"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a chart's y axis, which covers all values and the middle value ± its share MIN_HALF_RANGE.

    Returns -1 and 1 without values, or if all values are 0.
    """
    low, high = min(values, default=0.0), max(values, default=0.0)
    middle = (low + high) / 2
    half_range = max((high - low) / 2, abs(middle) * MIN_HALF_RANGE) or 1.0
    return middle - half_range, middle + half_range
