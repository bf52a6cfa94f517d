"""Turns judged series into one static page with a chart per series, beside the pages of the comparisons."""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from tasks.history.judge import Event, Judged, Line
from tasks.history.report import draw_trend, name_line, show_event, show_time, values_of
from tasks.publish.assets import install_plotly
from tasks.publish.index import HISTORY, PAGE, add_history
from tasks.publish.index_page import link_home, update_index
from tasks.publish.templating import make_environment, read_asset
from tasks.publish.text import visible
from tasks.store import Store, write_atomically

LINES: tuple[Line, ...] = ("baseline", "candidate", "ratio")


def write_history_page(judged: Sequence[Judged], store: Store) -> Path | None:
    """Write `history.html` at the top of the store; returns its path. Series with changes stand first.

    Of a bucket that may only be read the page stays in the working copy; in such a folder there can be none: None.
    """
    if not store.writable and store.mirror is None:
        return None
    plotly = install_plotly(store.path / "assets")
    script = read_asset("history.js")
    pages = _find_pages(store)
    ordered = sorted(judged, key=lambda item: -len(item.events))
    html = (
        make_environment()
        .get_template("history.html.j2")
        .render(
            items=[_shown(number, item, pages) for number, item in enumerate(ordered)],
            plotly=os.path.relpath(plotly, store.path).replace(os.sep, "/"),
            style=Markup(read_asset("page.css")),
            home=PAGE if store.mirror is None else link_home(store),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )
    page = write_atomically(store.path / HISTORY, html)
    if store.writable:
        store.push(plotly.parent)
        store.push(page)
        update_index(store, add_history)
    return page


def _find_pages(store: Store) -> dict[str, str]:
    """What leads to the page of every comparison, by its name in the store: beside this page, or in the bucket."""
    beside = store.mirror is None or store.writable
    names = [entry.name for entry in store.files.entries("comparisons", "comparisons/*/*/*/index.html")]
    return {name: quote(name) if beside else store.link_to(store.path / name) for name in names}


def _shown(number: int, item: Judged, pages: Mapping[str, str]) -> dict[str, Any]:
    series = item.series
    latest = series.nights[-1]
    return {
        "id": f"series-{number}",
        "series": series,
        "trend": draw_trend(values_of(item, "ratio")),
        "latest": latest,
        "when": show_time(latest),
        "events": [(_word(event), show_event(event, series)) for event in item.events],
        "notes": item.notes,
        "chart": {
            "unit": series.unit,
            "lines": [_line(item, line, pages) for line in LINES],
        },
    }


def _word(event: Event) -> str:
    if event.worse is None or event.cause == "shared":
        return "unknown"
    return "regressed" if event.worse else "improved"


def _line(item: Judged, line: Line, pages: Mapping[str, str]) -> dict[str, Any]:
    """The points of a line; texts are escaped for plotly.js, which reads tags in them."""
    found, series = item.line(line), item.series
    nights = [series.nights[i] for i in found.nights]
    outliers = set(found.trend.outliers)
    return {
        "side": line,
        "name": _tagless(name_line(line, series)),
        "x": [night.time.isoformat() if night.time else None for night in nights],
        "y": values_of(item, line),
        "text": [
            _tagless(f"{(night.baseline_commit or '')[:9]} / {(night.candidate_commit or '')[:9]}") for night in nights
        ],
        "alone": [i in outliers for i in range(len(nights))],
        "page": [
            pages.get(f"comparisons/{series.comparison}/{series.case}/{night.comparison_id}/index.html")
            for night in nights
        ],
        "changes": [
            {"x": event.after.time.isoformat(), "word": _word(event)}
            for event in item.events
            if event.line == line and event.after.time is not None
        ],
    }


def _tagless(text: str) -> str:
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
