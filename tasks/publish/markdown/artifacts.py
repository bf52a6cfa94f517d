"""Turns a comparison record into Markdown, for a Prefect artifact and a pull request.

An arm is one of the two compared versions.
"""

import re
from collections.abc import Iterator

from tasks.publish.content.brief import Brief, Death, Strip, make_brief
from tasks.publish.content.verdict_words import OUTCOMES, tell_verdict
from tasks.publish.markdown.elements import draw_table, escape_markdown
from tasks.records.compared_case import ComparisonRecord
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
    last = [f"next: {_md(brief.done if step is None else step.before or step.purpose)}"] if step or brief.done else []
    last += [show_code(step.command)] if step is not None and step.argv else []
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


_md = escape_markdown


def show_code(text: str) -> str:
    """Return a text as code, such as a command or a path."""
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return f"{fence} {visible(text)} {fence}"
