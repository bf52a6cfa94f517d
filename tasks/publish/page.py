"""Turns a comparison record and the lines of its logs into one static page that works from a file and offline."""

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tasks.publish import words
from tasks.publish.assets import install_plotly, replacing
from tasks.publish.chart import draw_loss, to_data_uri
from tasks.publish.checkpoints import STATES, list_checkpoints
from tasks.publish.figures import list_figures, shown_points
from tasks.publish.logview import LogView, read_log
from tasks.publish.text import visible
from tasks.records import ArmSummary, ComparisonRecord, Source
from tasks.store.atomic import write_atomically

LINES_BEFORE_DEATH = 12

type Lines = Iterable[tuple[int, str]]


def write_page(
    record: ComparisonRecord,
    directory: str | os.PathLike[str],
    *,
    log_lines: Mapping[str, Lines],
    assets: str | os.PathLike[str] | None = None,
) -> Path:
    """Writes `directory/index.html` and `directory/logs/`, and returns the page's path.

    `log_lines` gives the (byte offset, text) pairs of a log in order, once: by arm name for an arm's first run, by
    `arm/run name` for any run. Any iterable will do; a log is read once and never held whole. An arm that it lacks
    is shown without its log. `assets` is the folder that all pages share for plotly.js (default: `directory/assets`).
    Raises StoreError when something cannot be written.
    """
    folder = Path(directory)
    shared = Path(assets) if assets is not None else folder / "assets"
    plotly = install_plotly(shared)
    logs = Logs(record, log_lines, folder)
    still = draw_loss(record)
    html = (
        _environment()
        .get_template("page.html.j2")
        .render(
            record=record,
            sides=[("baseline", record.baseline), ("candidate", record.candidate)],
            logs=logs,
            figures=list_figures(record, logs.anchor),
            still=to_data_uri(still) if still else None,
            plotly=os.path.relpath(plotly, folder).replace(os.sep, "/"),
            icon=to_data_uri(_icon(record)),
            style=Markup(_asset("page.css")),
            script=Markup(_asset("page.js")),
            script_hash=base64.b64encode(hashlib.sha256(_asset("page.js").encode()).digest()).decode(),
        )
    )
    return write_atomically(folder / "index.html", html)


class Logs:
    """The logs of both sides as the page shows them, and the way from a place in a log to its anchor."""

    def __init__(self, record: ComparisonRecord, log_lines: Mapping[str, Lines], folder: Path):
        self._views: dict[tuple[str, str | None], LogView] = {}
        self.by_side: dict[str, list[LogView]] = {"baseline": [], "candidate": []}
        for side, arm in (("baseline", record.baseline), ("candidate", record.candidate)):
            for number, run in enumerate(arm.runs or (arm.name,)):
                lines = log_lines.get(f"{arm.name}/{run}", log_lines.get(arm.name) if number == 0 else None)
                if lines is None:
                    continue
                prefix = side if number == 0 else f"{side}-{number + 1}"
                file = f"logs/{prefix}.txt"
                with replacing(folder / file) as copy:
                    view = read_log(
                        lines,
                        _references(record, arm, run, first=number == 0),
                        title=f"{visible(arm.label)} · {visible(run)}",
                        prefix=prefix,
                        copy=copy,
                        file=file,
                    )
                self.by_side[side].append(view)
                self._views[arm.name, run] = view
                self._views.setdefault((arm.name, None), view)

    def anchor(self, arm: str, run: str | None, source: Source | None) -> str | None:
        """The anchor of the line at `source` in a run's log (None: the arm's first run), if the page shows it."""
        view = self._views.get((arm, run))
        return view.anchors.get(source.offset) if view is not None and source is not None and source.line else None

    def before_death(self, arm: ArmSummary) -> list[str]:
        """The last lines up to the one that names the cause of death."""
        error, view = arm.cause_of_death, self._views.get((arm.name, None))
        if error is None or view is None or error.offset not in view.anchors:
            return []
        at = next(i for i, line in enumerate(view.shown) if line.anchor == view.anchors[error.offset])
        return [line.text for line in view.shown[max(0, at + 1 - LINES_BEFORE_DEATH) : at + 1]]


def _references(record: ComparisonRecord, arm: ArmSummary, run: str, *, first: bool) -> dict[Source, tuple[str, ...]]:
    """Every place in a run's log that the page links to, with the names of what was read there."""
    places: dict[Source, tuple[str, ...]] = {}

    def add(source: Source | None, *names: str) -> None:
        if source is not None and source.line:
            places[source] = places.get(source, ()) + tuple(visible(name) for name in names)

    for curve in record.curves:
        if (curve.arm, curve.run_name) == (arm.name, run):
            for i in shown_points(curve):
                add(Source(line=curve.lines[i], offset=curve.offsets[i]))
    if not first:
        return places
    for row in record.rows:
        add(row.baseline_source if arm is record.baseline else row.candidate_source, row.title)
    for finding in record.findings:
        for evidence in finding.evidence:
            if evidence.arm == arm.name:
                add(evidence.source, finding.kind)
    if arm.cause_of_death is not None:
        add(Source(line=arm.cause_of_death.line, offset=arm.cause_of_death.offset), "cause of death")
    for event in arm.checkpoints:
        add(Source(line=event.line, offset=event.offset), f"checkpoint {event.step}")
    for stall in record.stalls.get(arm.name, ()):
        add(Source(line=stall.line, offset=stall.offset), f"stall: {stall.cause}")
    return places


def _icon(record: ComparisonRecord) -> str:
    word = words.VERDICTS[record.verdict]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
        f'<rect width="32" height="32" rx="7" fill="{word.colour}"/><text x="16" y="24" font-size="22" fill="#fff" '
        f'font-family="sans-serif" font-weight="bold" text-anchor="middle">{word.sign}</text></svg>'
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tasks.publish"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    environment.globals.update(
        words=words, checkpoint_states=STATES, list_checkpoints=list_checkpoints, is_dead=words.is_dead
    )
    return environment


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
