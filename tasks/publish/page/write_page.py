"""Writes the static page of a comparison. The page works offline, also when opened as a file.

An arm is one of the two compared versions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment

from tasks.diff.judge.next_step import PER_STEP, find_time_row
from tasks.diff.judge.suggested_commands import repeat_command
from tasks.metrics.result_metrics import END
from tasks.publish.content import verdict_words
from tasks.publish.content.amounts import show_seconds
from tasks.publish.content.array_tables import count_roles, describe_counts, list_arrays
from tasks.publish.content.brief import find_frame, make_brief, short_title
from tasks.publish.content.checkpoints import STATES, list_checkpoints
from tasks.publish.content.compared_code import describe_arms, describe_notes
from tasks.publish.content.compared_facts import compare_facts
from tasks.publish.content.edits import list_edits
from tasks.publish.content.effects import draw_effects
from tasks.publish.content.explanation_sections import headline_of, list_sections
from tasks.publish.content.further_commands import list_further
from tasks.publish.content.row_values import name_unit, show_sides, show_values
from tasks.publish.content.save_timeline import draw_lives
from tasks.publish.content.templating import load_assets, make_environment
from tasks.publish.content.time_bars import axis_ticks, list_parts, place_time_bars
from tasks.publish.content.typed_command import as_typed
from tasks.publish.page.curve_data import list_marks, write_figures
from tasks.publish.page.differences import list_differences
from tasks.publish.page.log_files import Lines, Logs
from tasks.publish.page.picture import draw_bars, draw_picture
from tasks.publish.page.replace_text import replace_text
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.run import RunRecord
from tasks.resolve.git import MAX_COMMITS

MAX_LINES = 100  # limit of lines shown per side, one of each kind that the other side's logs lack


def write_page(
    record: ComparisonRecord,
    folder: Path,
    *,
    log_lines: Mapping[str, Lines],
    runs: Mapping[str, RunRecord] | None = None,
    home: str = "",
    neighbours: str = "",
    flow_run: str = "",
    stamp: str = "",
    out: Sequence[str] = (),
) -> Path:
    """Write `index.html`, `logs/` and `curves/` into `folder`; return the path of `index.html`.

    log_lines: `arm/run name`, or the arm's name for its first run → the log's (byte offset, text) pairs in order; and
        `arm/file name` → those of a compiled program. Each iterable is read once, in constant memory. A log without
        an entry is not on the page.
    runs: `arm/run name` → run record; without them the page has no settings and fewer curves.
    home: URL of the index page.
    neighbours: URL of the script with the results of all cases of the page's pair (`name_pair`).
    flow_run: URL of the Prefect flow run.
    out: the option of the store, for commands.
    stamp: digest of record and code that is stored in the page, to detect a stale page.

    Raises StoreError if a file cannot be written.
    """
    record = verdict_words.without_sides(record)
    known, sides = runs or {}, verdict_words.sides_of(record)
    first = [known.get(f"{arm.name}/{arm.runs[0]}") if arm.runs else None for _, arm in sides]
    logs = Logs(record, log_lines, folder)
    figures = write_figures(record, known, logs, folder)
    marks = list_marks(record, known) if figures else []
    effects = draw_effects(record.rows)
    brief = make_brief(record)
    drawn = [figure["id"] for figure in figures]
    first_curve = next((metric for metric in (brief.curve, "loss", *drawn) if metric in drawn), "")
    data = {
        "id": record.id,
        "figures": figures,
        "marks": marks,
        "divergence": record.divergence and {"metric": record.divergence.metric, "step": record.divergence.step},
        "logs": {view.prefix: view.to_json() for view in logs.views},
        "place": [record.case, record.target, record.baseline.ref, record.candidate.ref],
    }
    html = (
        _environment()
        .get_template("page.html.j2")
        .render(
            record=record,
            sections=list_sections(record.explanation),
            why=headline_of(record.explanation) if record.explanation else "",
            sides=sides,
            facts=compare_facts(record),
            effects=effects,
            brief=brief,
            arms=describe_arms(record),
            notes=describe_notes(record),
            picture=(picture := draw_picture(record)),
            shown=None if picture else draw_bars(record),
            groups=(groups := _fold_levels(record)),
            tally=Counter(row.verdict for rows in groups.values() for row, _ in rows),
            first_curve=first_curve,
            logs=logs,
            home=home,
            neighbours=neighbours,
            flow_run=flow_run if flow_run.startswith(("http://", "https://")) else "",
            stamp=stamp,
            again=repeat_command(record, *first),
            differences=list_differences(*first),
            own_lines={side: logs.unique(side) for side in logs.by_side} if logs.have_lines_of_both else {},
            most_lines=MAX_LINES,
            edits=list_edits(record),
            further=list_further(record, out),
            commits=_commits_command(record),
            most_commits=MAX_COMMITS,
            figures=figures,
            causes=sorted({mark["cause"] for mark in marks}),
            bars=(bars := place_time_bars(record)),
            time_ticks=axis_ticks(bars),
            data=data,
            **load_assets("site.js", "page.js", "logs.js", "curves.js"),
        )
    )
    page = folder / "index.html"
    replace_text(page, html)
    return page


def _fold_levels(record: ComparisonRecord) -> dict[str, list[tuple[MetricDiff, list[MetricDiff]]]]:
    """Return heading → rows, each with the rows that its details show: one row has all levels of the step time.

    The row of a death is left out, because the first screen tells it.
    """
    first = find_time_row(record.rows, record.verdict)
    times = sorted((row for row in record.rows if row.metric in PER_STEP), key=lambda row: row is not first)
    left_out = [*times[1:], *(row for row in record.rows if row.metric == END.name)]
    groups = {
        name: [(row, times[1:] if row in times else []) for row in rows if row not in left_out]
        for name, rows in verdict_words.group_rows(record).items()
    }
    return {name: rows for name, rows in groups.items() if rows}


def _commits_command(record: ComparisonRecord) -> str:
    """Return the git command that lists the commits that only one side has; empty without two different commits."""
    left, right = map(record.commit_in_clone, (record.baseline, record.candidate))
    return f"git log --oneline --left-right {left}...{right}" if left and right and left != right else ""


@cache
def _environment() -> Environment:
    return make_environment(
        words=verdict_words,
        typed=as_typed,
        find_frame=find_frame,
        name_unit=name_unit,
        short_title=short_title,
        show_sides=show_sides,
        show_values=show_values,
        list_parts=list_parts,
        show_seconds=show_seconds,
        checkpoint_states=STATES,
        list_checkpoints=list_checkpoints,
        count_roles=count_roles,
        list_arrays=list_arrays,
        describe_counts=describe_counts,
        draw_lives=draw_lives,
    )
