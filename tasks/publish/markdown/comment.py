"""Turns the comparisons of one flow run into a comment on a pull request: verdicts, differing rows, links to pages."""

from collections.abc import Sequence

from tasks.publish.content.page_address import PublishedPage
from tasks.publish.content.verdict_words import (
    WORST_FIRST,
    difference_text,
    list_rows_to_explain,
    name_verdict,
    outcome_of,
)
from tasks.publish.markdown.artifacts import draw_table, escape_markdown
from tasks.publish.markdown.night import MARKER
from tasks.records import ComparisonRecord, MetricDiff
from tasks.records.text import shorten, visible
from tasks.store import safe_name

MAX_TEXT_LENGTH = 300  # characters of a headline or a reason
MAX_ROWS = 20  # rows per case


def comparison_comment(compared: Sequence[tuple[ComparisonRecord, PublishedPage]], name: str) -> str:
    """Return the comment: a line per case, the judged rows that are not the same, and the worst case's next command.

    The comment begins with a hidden marker that contains `name`, so that each comparison updates its own comment.
    """
    ranked = sorted(compared, key=lambda pair: WORST_FIRST.index(pair[0].verdict))
    blocks = [MARKER.format(f"compare {safe_name(name)}")]
    if ranked:
        worst = ranked[0][0]
        blocks.append(f"# {name_verdict(outcome_of(worst))}: {escape_markdown(name)}")
        blocks.append(draw_table(["case", "verdict", "why"], "lll", [_cells(record, page) for record, page in ranked]))
        for record, _ in ranked:
            blocks += _rows(record)
        if worst.next_command:
            blocks.append(f"Next:\n\n    {visible(worst.next_command)}")  # an indented block: nothing in it is markup
    return "\n\n".join(blocks).replace("-->\n\n", "-->\n", 1) + "\n"


def _cells(record: ComparisonRecord, page: PublishedPage) -> list[str]:
    case = escape_markdown(record.case)
    linked = f"[{case}]({page.link})" if page.link.startswith(("http://", "https://")) else case
    return [linked, name_verdict(outcome_of(record)), escape_markdown(shorten(record.headline, MAX_TEXT_LENGTH))]


def _rows(record: ComparisonRecord) -> list[str]:
    rows = list_rows_to_explain(record)
    lines = [_line(row) for row in rows[:MAX_ROWS]]
    more = [f"- … and {len(rows) - MAX_ROWS} more"] if len(rows) > MAX_ROWS else []
    return [f"## {escape_markdown(record.case)}", "\n".join([*lines, *more])] if lines else []


def _line(row: MetricDiff) -> str:
    texts = [f"- {name_verdict(row.verdict)} **{escape_markdown(row.title)}**", escape_markdown(difference_text(row))]
    return " ".join(text for text in texts if text) + f": {escape_markdown(shorten(row.reason, MAX_TEXT_LENGTH))}"
