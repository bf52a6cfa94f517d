"""Turns a comparison record and the lines of its logs into one static page that works from a file and offline."""

import base64
import hashlib
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from tasks.publish import words
from tasks.publish.assets import install_plotly
from tasks.publish.chart import draw_loss, draw_times, to_data_uri
from tasks.publish.checkpoints import STATES, list_checkpoints
from tasks.publish.figures import list_figures
from tasks.publish.logs import Lines, Logs
from tasks.publish.templating import make_environment, read_asset
from tasks.publish.times import describe_part, list_parts
from tasks.records import ComparisonRecord
from tasks.store.atomic import write_atomically


def write_page(
    record: ComparisonRecord,
    directory: str | os.PathLike[str],
    *,
    log_lines: Mapping[str, Lines],
    schedules: Mapping[str, str] | None = None,
    assets: str | os.PathLike[str] | None = None,
    home: str = "",
) -> Path:
    """Writes `directory/index.html` and `directory/logs/`, and returns the page's path.

    `log_lines` gives the (byte offset, text) pairs of a log in order, once: by arm name for an arm's first run, by
    `arm/run name` for any run. Any iterable will do; a log is read once and never held whole. An arm that it lacks
    is shown without its log. `schedules`: SVG text by arm name, shown as images. `assets` is the folder that all pages
    share for plotly.js (default: `directory/assets`), `home` what leads to the index of all pages, if there is one.
    Raises StoreError when something cannot be written.
    """
    folder = Path(directory)
    shared = Path(assets) if assets is not None else folder / "assets"
    plotly = install_plotly(shared)
    logs = Logs(record, log_lines, folder)
    still, times = draw_loss(record), draw_times(record)
    html = (
        _environment()
        .get_template("page.html.j2")
        .render(
            record=record,
            sides=[("baseline", record.baseline), ("candidate", record.candidate)],
            logs=logs,
            home=home,
            figures=list_figures(record, logs.anchor),
            still=to_data_uri(still) if still else None,
            times=to_data_uri(times) if times else None,
            schedules={arm: to_data_uri(picture) for arm, picture in (schedules or {}).items()},
            plotly=os.path.relpath(plotly, folder).replace(os.sep, "/"),
            icon=to_data_uri(_icon(record)),
            style=Markup(read_asset("page.css")),
            script=Markup(read_asset("page.js")),
            script_hash=base64.b64encode(hashlib.sha256(read_asset("page.js").encode()).digest()).decode(),
        )
    )
    return write_atomically(folder / "index.html", html)


def _icon(record: ComparisonRecord) -> str:
    word = words.VERDICTS[record.verdict]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
        f'<rect width="32" height="32" rx="7" fill="{word.colour}"/><text x="16" y="24" font-size="22" fill="#fff" '
        f'font-family="sans-serif" font-weight="bold" text-anchor="middle">{word.sign}</text></svg>'
    )


@cache
def _environment() -> Environment:
    return make_environment(
        words=words,
        list_parts=list_parts,
        describe_part=describe_part,
        checkpoint_states=STATES,
        list_checkpoints=list_checkpoints,
        is_dead=words.is_dead,
    )
