"""Turns the comparisons of one flow run into Markdown: verdicts, differing rows, links to pages.

It is the flow run's artifact in Prefect, and a comment on a pull request.
"""

from collections.abc import Sequence

from tasks.publish.content.brief import make_brief
from tasks.publish.content.page_address import PublishedPage
from tasks.publish.content.verdict_words import WORST_FIRST, name_verdict, outcome_of, tell_verdict
from tasks.publish.markdown.artifacts import summary_markdown
from tasks.publish.markdown.elements import draw_table, escape_markdown
from tasks.publish.markdown.night import MARKER
from tasks.records.compared_case import ComparisonRecord
from tasks.records.text import shorten
from tasks.store.names import safe_name

MAX_TEXT_LENGTH = 300  # characters of a result
MAX_BRIEFS = 10
CALM = ("same", "improved")  # outcomes that need no look


def comparison_comment(compared: Sequence[tuple[ComparisonRecord, PublishedPage]], name: str) -> str:
    """Return the comment. It begins with a hidden marker that contains `name`: each comparison updates its own one."""
    return f"{MARKER.format(f'compare {safe_name(name)}')}\n{tell_comparisons(compared, name)}"


def tell_comparisons(compared: Sequence[tuple[ComparisonRecord, PublishedPage]], name: str) -> str:
    """Return a line per case if there are several, the worst first, and the briefs of those that need a look."""
    ranked = sorted(compared, key=lambda pair: WORST_FIRST.index(pair[0].verdict))
    blocks = []
    if len(ranked) > 1:
        blocks.append(f"# {name_verdict(outcome_of(ranked[0][0]))}: {escape_markdown(name)}")
        blocks.append(draw_table(["case", "verdict", "result"], "lll", [_cells(*pair) for pair in ranked]))
    blocks += [
        summary_markdown(record, page.link).strip("\n")
        for record, page in ranked
        if len(ranked) == 1 or outcome_of(record) not in CALM
    ][:MAX_BRIEFS]
    return "\n\n".join(blocks) + "\n"


def _cells(record: ComparisonRecord, page: PublishedPage) -> list[str]:
    case = escape_markdown(record.case)
    linked = f"[{case}]({page.link})" if page.link.startswith(("http://", "https://")) else case
    brief = make_brief(record)
    return [linked, tell_verdict(record), escape_markdown(shorten(brief.sentence, MAX_TEXT_LENGTH))]
