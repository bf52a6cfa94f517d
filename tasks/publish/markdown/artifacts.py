"""Turns comparison records into the contents of Prefect artifacts: Markdown, table rows, keys.

An arm is one of the two compared versions.
"""

import re
from collections.abc import Iterator, Sequence

from tasks.publish.content.brief import Brief, Death, Strip, make_brief
from tasks.publish.content.verdict_words import (
    OUTCOMES,
    WORST_FIRST,
    cell_text,
    difference_text,
    name_verdict,
    tell_verdict,
    threshold_text,
    without_sides,
)
from tasks.publish.markdown.elements import MAX_TEXT_LENGTH, draw_table, escape_markdown
from tasks.records.compared_case import ComparisonRecord, MetricDiff
from tasks.records.text import shorten, visible

MAX_BYTES = 2_000  # of a summary
MAX_LINE_LENGTH = 200  # characters of a line of a log


def summary_description(record: ComparisonRecord) -> str:
    """Return the verdict in one line of Markdown, for the description of an artifact."""
    return _md(f"{tell_verdict(record)}: {make_brief(record).sentence}")


def summary_markdown(record: ComparisonRecord, page: str = "") -> str:
    """Return a comparison's brief as Markdown for both Prefect UIs and GitHub: the page's link first, then the verdict.

    Has at most MAX_BYTES bytes: long rows, log lines and reasons are left out. page: a URL, or empty.
    """
    brief = make_brief(record)
    more = " ".join(filter(None, (brief.sure, brief.evaluated, brief.not_tried)))
    head = [
        f"# {tell_verdict(record)}: {_md(brief.title)}",
        f"**{_md(brief.sentence)}** {_md(more)}".strip(),
    ]
    head += [f"**{_md(brief.gate)}**"] if brief.gate else []
    if page.startswith(("http://", "https://")):
        head.insert(0, f"[The page]({page})")
    step = brief.next_step
    last = [f"next: {_md(step.before or step.purpose)}"] if step is not None else []
    last += [_code(step.command)] if step is not None and step.argv else []
    between = [
        "\n".join(f"- {OUTCOMES[tick.word].sign} {_md(tick.text)}" for tick in brief.ticks),
        "\n".join(f"- {_md(strip.name)}: {_md(_levels(strip))}" for strip in brief.strips),
        *(block for death in brief.deaths for block in _death(death)),
        _rows(brief),
        f"why: {_md(brief.why)}" if brief.why else "",
    ]
    blocks = [*head, *last]
    for block in filter(None, between):
        if len("\n\n".join([*blocks, block]).encode()) < MAX_BYTES:
            blocks.insert(len(blocks) - len(last), block)
    return "\n\n".join(blocks) + "\n"


def _levels(strip: Strip) -> str:
    return ", ".join(f"{1e3 * level.seconds:.3g} ms {level.steps}" for level in strip.levels)


def _death(death: Death) -> Iterator[str]:
    told = ": ".join(filter(None, (death.cause, "" if death.lines else death.message)))
    yield f"† **{death.side}**: {_md(told)}" if told else ""
    yield "\n".join(f"- {_md(shorten(line.strip(), MAX_LINE_LENGTH))}" for line in death.lines)
    yield f"**Will running it again help?** {_md(death.again)}" if death.again else ""


def _rows(brief: Brief) -> str:
    """Return the table of the deciding rows, and the number of the others."""
    rows = [
        [_md(row.title), _md(row.values), row.percent, f"{OUTCOMES[row.verdict].sign} {row.verdict}"]
        for row in brief.rows
    ]
    table = draw_table(["metric", "values", "difference", "verdict"], "lrrl", rows) if rows else ""
    return "\n\n".join(filter(None, (table, brief.more)))


def artifact_rows(records: Sequence[ComparisonRecord]) -> list[dict[str, str]]:
    """Return one row per metric of all comparisons, the worst first, for a table artifact; every value is a string."""
    pairs = [(record, row) for record in map(without_sides, records) for row in record.rows]
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


_md = escape_markdown


def _code(text: str) -> str:
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence} {visible(text)} {fence}"
