"""Turns judged series into one static page: the changes of level, then a small chart of every series."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from tasks.history.judge import Event, Judged, Line
from tasks.history.report import show_event, show_time
from tasks.publish.index import HISTORY, PAGE, add_history
from tasks.publish.index_page import link_home, update_index
from tasks.publish.templating import hash_of, make_environment, read_asset
from tasks.store import Store, write_atomically

SIDES: tuple[Line, ...] = ("baseline", "candidate")
HEIGHT = 48.0  # of a chart, whose width is 100


def write_history_page(judged: Sequence[Judged], store: Store) -> Path | None:
    """Write `history.html` at the top of the store; returns its path. Series of one pair of refs stand together.

    Of a bucket that may only be read the page stays in the working copy; in such a folder there can be none: None.
    """
    if not store.writable and store.mirror is None:
        return None
    style = read_asset("page.css")
    pages = _find_pages(store)
    groups: dict[str, list[dict[str, Any]]] = {}
    for number, item in enumerate(judged):
        series = item.series
        name = " · ".join(part for part in (series.comparison, series.pair, series.target) if part)
        groups.setdefault(name, []).append(_shown(number, item, pages))
    html = (
        make_environment()
        .get_template("history.html.j2")
        .render(
            groups=groups,
            changes=[
                (word, text, item) for items in groups.values() for item in items for word, text in item["events"]
            ],
            notes=dict.fromkeys(note for item in judged for note in item.notes),
            style=Markup(style),
            style_hash=hash_of(style),
            home=PAGE if store.mirror is None else link_home(store),
        )
    )
    page = write_atomically(store.path / HISTORY, html)
    if store.writable:
        store.push(page)
        update_index(store, add_history)
    return page


def _find_pages(store: Store) -> dict[str, str]:
    """What leads to the page of every comparison, by its name in the store: beside this page, or in the bucket."""
    beside = store.mirror is None or store.writable
    names = [entry.name for entry in store.files.entries("comparisons", "comparisons/*/*/*/index.html")]
    return {name: quote(name) if beside else store.link_to(store.path / name) for name in names}


def _shown(number: int, item: Judged, pages: dict[str, str]) -> dict[str, Any]:
    series, latest = item.series, item.series.nights[-1]
    shown = (latest.baseline, latest.candidate)
    return {
        "id": f"series-{number}",
        "series": series,
        "when": show_time(latest),
        "medians": " → ".join("—" if value is None else f"{value:.4g}" for value in shown),
        "page": pages.get(f"comparisons/{series.comparison}/{series.case}/{latest.comparison_id}/index.html"),
        "events": [(_word(event), show_event(event, series)) for event in item.events],
        "lines": list(_lines(item)),
        "changes": [
            {"x": _x(item, series.nights.index(event.after) - 0.5), "word": _word(event)} for event in item.events
        ],
    }


def _word(event: Event) -> str:
    if event.worse is None or event.cause == "shared":
        return "unknown"
    return "regressed" if event.worse else "improved"


def _x(item: Judged, place: float) -> float:
    return round(2 + 96 * place / max(len(item.series.nights) - 1, 1), 2)


def _lines(item: Judged) -> Iterator[tuple[Line, str]]:
    """The points of both arms' medians, between the least and the largest of all."""
    nights = item.series.nights
    values = [value for night in nights for value in (night.baseline, night.candidate) if value is not None]
    low, high = min(values, default=0.0), max(values, default=0.0)
    for side in SIDES:
        points = [
            f"{_x(item, place)},{HEIGHT - 4 - (HEIGHT - 8) * ((value - low) / (high - low) if high > low else 0.5):.1f}"
            for place, night in enumerate(nights)
            if (value := getattr(night, side)) is not None
        ]
        yield side, " ".join(points)
