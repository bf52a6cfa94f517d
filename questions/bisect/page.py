"""Renders a bisection for a terminal, a Prefect artifact and a page, and writes the page into the store.

A point is a commit or a package version between the good and the bad end. The culprit is the point whose change made
the difference; the suspects are the points that remain if no single one was found. A level is a point's time relative
to the good end: 0.08 is 8 % more.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from questions.bisect.describe_bisection import show_counts
from questions.bisect.ledger import show_size
from questions.bisect.records import BisectedPoint, Bisection
from tasks.publish.content.explanation_sections import list_sections
from tasks.publish.content.templating import load_assets, make_environment
from tasks.publish.content.typed_command import as_typed
from tasks.publish.markdown.elements import draw_table, escape_markdown
from tasks.publish.site.index_page import link_home
from tasks.records.explanation import Explanation
from tasks.records.text import shorten, show_interval, visible, visible_lines
from tasks.store.atomic import write_atomically
from tasks.store.names import check_name
from tasks.store.store import Store

HERE = Path(__file__).parent  # with the page's template
FOLDER, RECORD = "bisections", "bisection.json"
SIGNS = {"found": "✗", "range": "?", "no difference": "?", "ledger": "·"}
MARKS = {"good": "=", "bad": "✗", "between": "≠", "unknown": "?", "skipped": "–", "": " "}
SUBJECT = 48  # characters of a commit's subject

WIDTH, HEIGHT = 960.0, 180.0  # px, like all lengths below; size of the area with the levels
LEFT = 88.0  # for the labels of levels
STRIP = HEIGHT + 24  # y of the points without a level
MARGIN = 0.06  # above and below the levels, as a share of their range

type Kind = Literal["culprit", "ruled", "good", "bad", "between", "unknown", "skipped", "open"]
type Rule = tuple[float, str]  # y and label of a horizontal line


@dataclass(frozen=True)
class DrawnPoint:
    """A point and its coordinates in px; None for absent values."""

    point: BisectedPoint
    kind: Kind
    suspect: bool
    x: float
    y: float
    low: float | None  # y of the ends of the level's interval
    high: float | None


def render_bisection(record: Bisection, page: str = "") -> str:
    """Return the text for a terminal: the answer and its counts, then the known details.

    The details are: notes, program differences, compile ledger (only if nothing was
    trained), page, next command.
    """
    lines = [f"{SIGNS[record.outcome]} {visible(record.headline)}", f"  {show_counts(record)}"]
    lines += [f"  {visible(note)}" for note in record.notes]
    lines += [f"  {told}" for told in (record.programs, record.program and record.program.sentence) if told]
    if record.outcome == "ledger":
        lines += ["", *render_ledger(record.points)]
    if page:
        lines.append(f"page: {visible(page)}")
    if record.next_command:
        lines.append(f"next: {visible(as_typed(record.next_command))}")
    return "\n".join(lines) + "\n"


def render_ledger(points: Sequence[BisectedPoint]) -> list[str]:
    """Return the compile ledger (facts about each point's compiled step) as aligned lines.

    ″ stands for the same program as the last known one above.
    """
    rows = [("commit", "program", "collectives", "recomputed", "memory", "subject"), *_ledger_rows(points)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    right = {2, 3, 4}
    return [
        "  ".join([*(cell.rjust(width) if column in right else cell.ljust(width)
                     for column, (cell, width) in enumerate(zip(row, widths, strict=False))), row[5]]).rstrip()
        for row in rows
    ]  # fmt: skip


def _ledger_rows(points: Sequence[BisectedPoint]) -> Iterator[tuple[str, str, str, str, str, str]]:
    before: str | None = None
    for point in points:
        entry, subject = point.ledger, shorten(visible(point.commit.subject), SUBJECT)
        if entry.program is None:
            shown = "does not compile" if entry.error else "not known"
        else:
            shown = "″" if entry.program == before else entry.program[:9]
        yield (
            point.name, shown, show_size(entry.collective_bytes), show_size(entry.recomputed_flops),
            show_size(entry.memory_bytes), subject,
        )  # fmt: skip
        before = entry.program or before


def bisection_markdown(record: Bisection) -> str:
    """Return the bisection in Markdown for both Prefect UIs."""
    blocks = [f"# {SIGNS[record.outcome]} {escape_markdown(record.headline)}", show_counts(record)]
    blocks += [f"- {escape_markdown(note)}" for note in record.notes]
    blocks += [escape_markdown(told) for told in (record.programs, record.program and record.program.sentence) if told]
    if record.diffstat:
        blocks.append(f"```\n{record.diffstat.replace('```', '')}\n```")
    rows = [
        (
            f"`{point.name}` {escape_markdown(shorten(visible(point.commit.subject), SUBJECT))}",
            f"{MARKS[point.mark]} {point.mark}",
            str(point.runs or ""),
            show_level(point),
            (point.ledger.program or "")[:9],
            escape_markdown(shorten(point.ruled_out or point.why, 120)),
        )
        for point in record.points
    ]
    heads = ["commit", "mark", "runs", "against good", "program", "why"]
    return "\n\n".join([*blocks, draw_table(heads, "llrlll", rows)]) + "\n"


def show_level(point: BisectedPoint) -> str:
    """Return a level with its interval, such as `+8.2 % (+6.8 … +9.7)`; empty if unknown."""
    if point.level is None or point.low is None or point.high is None:
        return ""
    return show_interval(point.level, point.low, point.high)


def draw_points(record: Bisection) -> tuple[list[DrawnPoint], list[Rule]]:
    """Return every point, and the horizontal lines at the levels of the good and, if known, the bad end.

    If any point has a measured level, the good end is at level 0. Else points marked good are at level 0; the culprit
    and points marked bad or between are at level 1. Points without a level are drawn below, at STRIP.
    Levels beyond ±1 do not extend the y axis; such points are drawn at the end of the axis.
    """
    measured = any(point.level is not None for point in record.points)
    levels = [_level(record, number, measured) for number in range(len(record.points))]
    values = [*levels, *(value for point in record.points for value in (point.low, point.high))]
    shown = [0.0, *(value for value in values if value is not None and abs(value) <= 1)]
    margin = MARGIN * (max(shown) - min(shown)) or 1.0
    bottom, top = min(shown) - margin, max(shown) + margin

    def place(level: float) -> float:
        return round(HEIGHT - HEIGHT * (min(max(level, bottom), top) - bottom) / (top - bottom), 1)

    def draw(number: int, point: BisectedPoint, level: float | None) -> DrawnPoint:
        kind: Kind = "ruled" if point.ruled_out and not point.runs else point.mark or "open"
        is_known = point.low is not None and point.high is not None
        return DrawnPoint(
            point=point,
            kind="culprit" if number == record.culprit else kind,
            suspect=number in record.suspects,
            x=round(LEFT + (WIDTH - LEFT) / len(record.points) * (number + 0.5), 1),
            y=STRIP if level is None else place(level),
            low=place(point.low or 0.0) if is_known else None,
            high=place(point.high or 0.0) if is_known else None,
        )

    if measured:
        bad = record.points[-1].level
        rules = [(0.0, "good")] if bad is None else [(0.0, "good"), (bad, f"{100 * bad:+.1f} %")]
    else:
        rules = [(0.0, "like good"), *([(1.0, "like bad")] if 1.0 in levels else [])]
    drawn = [draw(number, *pair) for number, pair in enumerate(zip(record.points, levels, strict=True))]
    return drawn, [(place(level), label) for level, label in rules]


def _level(record: Bisection, number: int, measured: bool) -> float | None:
    point = record.points[number]
    if measured or record.metric == "":
        return 0.0 if number == 0 else point.level
    if number == record.culprit or point.mark in ("bad", "between"):
        return 1.0
    return 0.0 if point.mark == "good" else None


def publish_bisection(record: Bisection, store: Store) -> Path:
    """Write the record and its page into the store, replacing earlier versions; return the page's path."""
    parts = (check_name(record.comparison, "comparison"), check_name(record.case, "case"), check_name(record.id, "id"))
    folder = store.path.joinpath(FOLDER, *parts)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / RECORD, json.dumps(json.loads(record.model_dump_json()), indent=1))
    drawing, rules = draw_points(record)
    html = (
        make_environment(HERE, show_level=show_level, show_size=show_size, marks=MARKS, visible_lines=visible_lines)
        .get_template("bisect.html.j2")
        .render(
            record=record,
            sign=SIGNS[record.outcome],
            counts=show_counts(record),
            drawing=drawing,
            rules=rules,
            place={"width": WIDTH, "left": LEFT, "strip": STRIP},
            differences=list_sections(Explanation(headline="", program=record.program)),
            programs=[row[1] for row in _ledger_rows(record.points)],
            **load_assets("site.js", styles=("page.css", "bisect.css")),
            home=link_home(store, depth=4),
        )
    )
    page = write_atomically(folder / "index.html", html)
    store.push(folder)
    return page
