"""The command `maxview history`: shows how the metrics of a store's comparisons change over time."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from flows.cli.commands.common_options import DEFAULT_OUT, Json, Out

if TYPE_CHECKING:
    from questions.history.series import JudgedSeries, Series
    from tasks.store.store import Store


def history(
    case: str | None = None,
    /,
    *,
    metric: Annotated[list[str] | None, Parameter(help="A metric, again for more.", negative="")] = None,
    target: str | None = None,
    since: Annotated[str | None, Parameter(help="A date, or how long ago: 12h, 30d, 8w.")] = None,
    rebuild: Annotated[bool, Parameter(help="First rebuild it from the folders of the store.", negative="")] = False,
    out: Out = DEFAULT_OUT,
    json_: Json = False,
) -> int:
    """Show the metrics of all comparisons over time: trends, changes of level, and their possible causes.

    Exit status: 1 a metric's last change is for the worse, and not shared by both arms; 3 too few nights; else 0.

    Parameters
    ----------
    case
        A case, for example 03_dropout; every case by default.
    target
        The target of the runs; every target by default.
    """
    from questions.history.describe_series import next_of_series, series_to_json
    from questions.history.history_table import compact_history, load_history, rebuild_history
    from questions.history.page import write_history_page
    from questions.history.series import find_series, judge_history
    from tasks.publish.content.typed_command import as_typed
    from tasks.publish.site.index_page import rebuild_index
    from tasks.store.mirror import out_option
    from tasks.store.store import open_store

    store, errors = open_store(out, reading=not rebuild), Console(stderr=True, highlight=False)
    start = parse_since(since) if since else None
    if rebuild:
        errors.print(f"rebuilt from the folders: {rebuild_history(store)} comparisons and lone runs")
        rebuild_index(store)
    if store.writable:
        compact_history(store.files)
    table, metrics = load_history(store.files), metric or ()
    judged = judge_history(find_series(table, case=case, target=target, since=start), metrics)
    if not judged:
        cases, known = (sorted(table[column].unique().to_list()) for column in ("case", "metric"))
        raise ValueError(_explain_empty(filter(None, [case, *metrics, target]), cases, known))
    page = write_history_page(judged, store)
    if not store.writable:
        rest = "the page stays on this machine" if page else "no page is written"
        errors.print(f"{store.address}: may only be read, so {rest}", markup=False, soft_wrap=True)
    if json_:
        print(json.dumps([series_to_json(item) for item in judged], indent=1, allow_nan=False))
    else:
        print_history(judged, Console())
        for line in _places(page, store):
            print(line)
        following = f"{next_of_series(judged)} {shlex.join(out_option(store.address))}".rstrip()
        print(f"next: {as_typed(following)}")
    return 0


def _places(page: Path | None, store: "Store") -> Iterator[str]:
    """Yield a line with the page's place, and one with its link in a writable bucket; none without a page."""
    if page is None:
        return
    yield f"page: {store.address_of(page) if store.writable else page}"
    if link := store.link_for_others(page):
        yield f"link: {link}"


def _explain_empty(wanted: Iterator[str], cases: Sequence[str], metrics: Sequence[str]) -> str:
    """Return the message about a history without the wanted series. cases, metrics: the names in the history."""
    if not cases:
        return "the history is empty: maxview compare writes it; for a store that is older: maxview history --rebuild"
    return (
        f"the history has nothing for {', '.join(wanted) or 'this time'}; cases: {', '.join(cases)}; "
        f"metrics: {', '.join(metrics)}"
    )


def print_history(judged: "Sequence[JudgedSeries]", console: Console) -> None:
    """Print tables with one row per series (last values and trend), then the changes and notes.

    There is a table for each comparison, pair of arms, case and target.
    """
    from rich.markup import escape
    from rich.table import Table

    from questions.history.describe_series import draw_trend, show_event
    from questions.history.page import title_of

    for heading, group in groupby(judged, key=_heading):
        console.print(f"\n[bold]{escape(heading)}[/]", highlight=False)
        table = Table(box=None, pad_edge=False)
        for item in group:
            series, latest = item.series, item.series.nights[-1]
            if not table.columns:
                for column in ("metric", series.baseline_arm, series.candidate_arm, "ratio, oldest to newest"):
                    table.add_column(escape(column), overflow="fold")
            cells = [f"{value:.4g}" if value is not None else "—" for value in (latest.baseline, latest.candidate)]
            ratios = [night.ratio for night in series.nights if night.ratio is not None]
            table.add_row(
                escape(_name_metric(series)),
                *cells,
                draw_trend(ratios),
            )
        console.print(table)
    notes: set[str] = set()
    for item in judged:
        reported = {event.after.comparison_id for event in item.events if event.line == "ratio"}
        for event in item.events:
            if event.line != "ratio" and event.after.comparison_id in reported:  # the ratio's event names the arm
                continue
            own = event.worse and event.cause != "shared"
            sign = "[red]✗[/]" if own else "[yellow]![/]" if event.worse or event.worse is None else "[green]✓[/]"
            text = escape(f"{item.series.case} · {title_of(item.series.metric)} · {show_event(event, item.series)}")
            console.print(f"{sign} {text}", highlight=False, soft_wrap=True)
        for note in item.notes:
            if note not in notes:
                notes.add(note)
                console.print(f"· {escape(note)}", highlight=False, soft_wrap=True)


def _name_metric(series: "Series") -> str:
    """Return the metric's title with its unit, unless one contains the other."""
    from questions.history.page import title_of

    title, unit = title_of(series.metric), series.unit
    if not unit or unit in title:
        return title
    return unit if unit.startswith(title) else f"{title}, {unit}"


def _heading(item: "JudgedSeries") -> str:
    series = item.series
    return " · ".join(filter(None, [series.comparison, series.pair, series.case, series.target]))


def parse_since(text: str) -> datetime:
    """Return the time of a date (2026-11-01), a time, or a duration before now (30d, 12h, 8w). Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        pass
    match = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if match is None:
        raise ValueError(f"--since {text!r} is no date and no length of time: give 2026-11-01, 12h, 30d or 8w")
    return datetime.now(UTC) - int(match[1]) * {"h": timedelta(hours=1), "d": timedelta(1), "w": timedelta(7)}[match[2]]
