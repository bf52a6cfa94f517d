"""Turns comparison records into the contents of Prefect artifacts: Markdown, table rows, keys.

An arm is one of the two compared versions.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence

from tasks.publish.content.answer import answer_of
from tasks.publish.content.chart import draw_changes, draw_curve, draw_times, to_data_uri
from tasks.publish.content.compared_code import describe_code
from tasks.publish.content.explanation_sections import TITLE, headline_of, list_sections
from tasks.publish.content.verdict_words import (
    AGAIN,
    EFFECT_WORDS,
    EFFECTS,
    GROUPS,
    HOLDS,
    OUTCOMES,
    WORST_FIRST,
    absent_text,
    cell_text,
    difference_text,
    list_findings,
    list_rows_to_explain,
    name_group,
    name_verdict,
    outcome_of,
    show_cells,
    sides_of,
    split_facts,
    threshold_text,
)
from tasks.records import ComparisonRecord, MetricDiff
from tasks.records.text import shorten, visible

MAX_KEY_LENGTH = 100  # characters
MAX_DIFFERENCES = 10  # lines shown per section of an explanation, and differences shown of two compiled programs
MAX_HEADING_LENGTH = (
    20  # characters; longer labels of arms become "baseline" and "candidate", because UIs cut off wide tables
)
MAX_TEXT_LENGTH = 600  # characters of a text in an artifact; the page has the full text

_MARKDOWN = re.compile(r"([\\`*_\[\]|~])")


def artifact_key(*parts: str) -> str:
    """Return a Prefect artifact key for names: lowercase letters, digits and dashes, at most 100 characters.

    The names are joined by dashes. Underscores and dots become dashes: `01_base` gives `01-base`. If anything else is
    changed or cut off, a short hash is added, so that `feat/x` and `feat:x` do not overwrite each other.
    """
    wanted = "-".join(parts)
    key = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")
    if key == re.sub(r"[_.]", "-", wanted) and 0 < len(key) <= MAX_KEY_LENGTH:
        return key
    digest = hashlib.sha256(wanted.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{key[: MAX_KEY_LENGTH - 9].strip('-')}-{digest}".strip("-")


def summary_description(record: ComparisonRecord) -> str:
    """Return the verdict in one line of Markdown, for the description of an artifact."""
    return _md(f"{name_verdict(outcome_of(record))}: {record.headline}")


def summary_markdown(record: ComparisonRecord) -> str:
    """Return a comparison as Markdown for both Prefect UIs: verdict, next step, causes, findings, charts, tables."""
    answer = answer_of(record)
    blocks = [
        f"# {name_verdict(outcome_of(record))}: {_md(record.case)}",
        *(["  \n".join(map(_md, code))] if (code := describe_code(record)) else []),
        f"**{_md(record.headline)}**",
        *([f"**How sure is that?** {_md(answer.sure)}"] if answer.sure else []),
        *_deaths(record),
        *(
            [f"**What to do next**: {_md(record.next_step.sentence)}"]
            if record.next_step is not None and record.next_step.sentence
            else []
        ),
        *([_code(record.next_command)] if record.next_command else []),
        *_explanation(record),
        _arms(record),
        *_findings(record),
        *_charts(record),
        *_programs(record),
        *_tables(record),
        *_floors(record),
    ]
    return "\n\n".join(blocks) + "\n"


def table_rows(records: Sequence[ComparisonRecord]) -> list[dict[str, str]]:
    """Return one row per metric of all comparisons, the worst first, for a table artifact; every value is a string."""
    pairs = [(record, row) for record in records for row in record.rows]
    pairs.sort(key=lambda pair: WORST_FIRST.index(pair[1].verdict))
    return [_table_row(record, row) for record, row in pairs]


def _table_row(record: ComparisonRecord, row: MetricDiff) -> dict[str, str]:
    return {
        "verdict": name_verdict(row.verdict),
        "case": visible(record.case),
        "metric": visible(row.title),
        "baseline": cell_text(row.baseline_text, record.baseline),
        "candidate": cell_text(row.candidate_text, record.candidate),
        "difference": difference_text(row),
        "threshold": threshold_text(row) or "—",
        "why": shorten(visible(row.reason), MAX_TEXT_LENGTH),
    }


def escape_markdown(text: str) -> str:
    """Return the text for Markdown and its tables: shortened, and with escaped markup, HTML, links and `@name`."""
    escaped = _MARKDOWN.sub(r"\\\1", shorten(visible(text), MAX_TEXT_LENGTH))
    escaped = escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("://", ":&#47;&#47;").replace("www.", "www&#46;").replace("@", "&#64;")


_md = escape_markdown


def draw_table(heads: Sequence[str], alignment: str, rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. alignment: one letter per column, l (left), r (right) or c (centre)."""
    marks = "|".join({"l": ":--", "r": "--:", "c": ":-:"}[side] for side in alignment)
    head, *others = (f"| {' | '.join(cells)} |" for cells in (heads, *rows))
    return "\n".join([head, f"|{marks}|", *others])


def _code(text: str) -> str:
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence} {visible(text)} {fence}"


def _deaths(record: ComparisonRecord) -> list[str]:
    blocks = []
    for role, arm in sides_of(record):
        if arm.has_died:
            error = arm.cause_of_death
            cause = f"{error.summary} (line {error.line} of its log)" if error else "no cause in its log"
            blocks.append(f"† {role} **{_md(arm.label)}** died: {_md(cause)}")
            blocks += [f"**Will running it again help?** {AGAIN[error.kind]}"] if error else []
    return blocks


def _findings(record: ComparisonRecord) -> list[str]:
    lines = []
    for finding, values in list_findings(record):
        tail = f" ({_md(values)})" if values else ""
        lines.append(f"- {EFFECTS[finding.effect].sign} *{EFFECT_WORDS[finding.effect]}*: {_md(finding.message)}{tail}")
    return ["## Are the two comparable?", "\n".join(lines)] if lines else []


def _charts(record: ComparisonRecord) -> list[str]:
    drawn = [
        ("change of every metric against its threshold", draw_changes(record)),
        ("loss per step", draw_curve(record, "loss")),
        ("where the time of a run went", draw_times(record)),
    ]
    return [f"![{title}]({to_data_uri(svg)})" for title, svg in drawn if svg is not None]


def _tables(record: ComparisonRecord) -> list[str]:
    blocks = []
    for group in GROUPS:
        rows = [row for row in record.rows if row.group == group]
        if not rows:
            continue
        arms = [_md(arm.label) if len(arm.label) <= MAX_HEADING_LENGTH else side for side, arm in sides_of(record)]
        heads = ["verdict", "metric", *arms, "difference", "threshold"]
        table = draw_table(heads, "llrrrr", [_cells(record, row) for row in rows])
        reasons = [
            f"- {_md(row.title)}: {_md(row.reason)}" for row in list_rows_to_explain(record) if row.group == group
        ]
        blocks += [f"## {name_group(record, group)}", table, *(["\n".join(reasons)] if reasons else [])]
    return [*blocks, *([_md(absent_text(record))] if record.absent else [])]


def _cells(record: ComparisonRecord, row: MetricDiff) -> list[str]:
    word = row.verdict
    verdict = name_verdict(word)
    return [
        f"**{verdict}**" if word in ("regressed", "changed") else verdict,
        *map(_md, show_cells(record, row)),
        _md(threshold_text(row)) or "—",
    ]


def _explanation(record: ComparisonRecord) -> list[str]:
    if record.explanation is None:
        return []
    headline = headline_of(record.explanation)
    blocks = [f"## {TITLE}", *([_md(headline)] if headline else [])]
    for section in list_sections(record.explanation):
        shown = [f"- {_md(line)}" for line in section.lines[:MAX_DIFFERENCES]]
        blocks.append("\n".join([f"**{section.title}**: {_md(section.sentence)}", "", *shown]))
    return blocks


def _programs(record: ComparisonRecord) -> list[str]:
    if record.programs is None or not record.programs.differences:
        return []
    rows = [
        [f"{100 * item.share:+.1f} %", *map(_md, (item.what, item.where, item.baseline, item.candidate))]
        for item in record.programs.differences[:MAX_DIFFERENCES]
    ]
    heads = ["share", "what", "where", "baseline", "candidate"]
    return ["## What differs between the programs, by cost", draw_table(heads, "rllll", rows)]


def _floors(record: ComparisonRecord) -> list[str]:
    lines = [
        f"- {OUTCOMES[HOLDS[floor.holds]].sign} **{floor.name}**: {_md(floor.evidence)}" for floor in record.floors
    ]
    return ["## Are they the same by construction?", "\n".join(lines)] if lines else []


def _arms(record: ComparisonRecord) -> str:
    facts = split_facts(record)
    labels = {side: arm.label for side, arm in sides_of(record)}
    lines = []
    for side, own in facts.items():
        label = [f"**{_md(labels[side])}**"] if side in labels else []
        lines.append(f"- {side}: " + ", ".join([*label, *(_md(f"{name} {value}") for name, value in own.items())]))
    return "\n".join(lines)
