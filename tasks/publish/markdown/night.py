"""Turns the record of a nightly run into a Markdown summary, a comment for GitHub, and a chat message.

A nightly run (a night) compares a matrix of cells; a cell is one case of one comparison. A cell is bad if its result
makes the night bad (`CellResult.counts`).
"""

from collections.abc import Sequence

from tasks.publish.content.verdict_words import OUTCOMES, name_verdict
from tasks.publish.markdown.elements import draw_table, escape_markdown
from tasks.records.night import CellResult, NightRecord
from tasks.records.text import shorten, visible

CHANGED_EVENT = "maxview.nightly.changed"  # name of the Prefect event of a night with changes
MARKER = "<!-- maxview:{} -->"  # hidden first line of a comment, to find and update it
MAX_HEADLINE_LENGTH = 300  # characters of a headline or of a line about a change
MAX_LINES = 20  # changes per message


def night_markdown(record: NightRecord) -> str:
    """Return the summary of a night: headline, facts, bad cells, bisections, matrix, cells in quarantine."""
    blocks = [
        f"# {night_headline(record)}",
        _facts(record),
        *_bad(record),
        *_bisected(record),
        *_twins(record),
        _matrix(record.results),
        *_quarantine(record),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def night_headline(record: NightRecord) -> str:
    """Return the sign and the sentence of `tell_night`."""
    return " ".join(tell_night(record))


def tell_night(record: NightRecord) -> tuple[str, str]:
    """Return a sign, and a sentence with the number of bad cells and of trainers with bad twins.

    Without any, the number of unknown cells, else of all cells. Cells in quarantine are neither bad nor unknown here.
    """
    total, bad = len(record.results), len(record.bad)
    if not total:
        return "–", "nothing was compared"
    if record.is_bad:
        parts = [f"{bad} of {total} comparisons need a look"] if bad else []
        for outcome, words in (("another", "compute another function"), ("failed", "were not evaluated")):
            if names := [one.comparison for one in record.twins if one.outcome == outcome]:
                parts.append(f"twins of {', '.join(names)} {words}")
        return "✗", " · ".join(parts)
    unknown = sum(result.outcome == "unknown" for result in record.results if not result.cell.quarantine)
    if unknown:
        return "?", f"{unknown} of {total} comparisons are undecided"
    return "✓", f"nothing regressed, {total} compared"


def comment_markdown(record: NightRecord) -> str:
    """Return the summary as a comment. The next night finds it by its marker and replaces it."""
    return f"{MARKER.format('nightly')}\n{night_markdown(record)}"


def night_message(record: NightRecord) -> str:
    """Return the changes since the previous night as text for Slack; empty without changes."""
    if not record.changes:
        return ""
    lines = [shorten(visible(change.line), MAX_HEADLINE_LENGTH) for change in record.changes[:MAX_LINES]]
    more = len(record.changes) - len(lines)
    rest = [f"… and {more} more"] if more > 0 else []
    # Slack's three control characters are escaped below
    text = "\n".join([f"maxview {record.plan.id}: {night_headline(record)}", *(f"• {line}" for line in lines), *rest])
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def show_cell(result: CellResult) -> str:
    """Return the text of a cell: its result with a sign, in brackets if the cell is in quarantine."""
    word = name_verdict(result.word)
    return f"({word})" if result.cell.quarantine else word


def _facts(record: NightRecord) -> str:
    plan = record.plan
    commits = ", ".join(f"{escape_markdown(name)} {sha[:9]}" for name, sha in plan.commits.items())
    words = [f"night {plan.id}", f"target {escape_markdown(plan.target)}", f"ended {record.ended}"]
    changed = f"{len(record.changes)} changed since {record.before}" if record.before else "the first night"
    return " · ".join([*words, *([commits] if commits else []), changed])


def _bisected(record: NightRecord) -> list[str]:
    lines = [
        f"- {escape_markdown(change.cell)}: {escape_markdown(shorten(change.text, MAX_HEADLINE_LENGTH))}"
        for change in record.changes
        if change.kind == "bisected"
    ]
    return ["## Bisected", "\n".join(lines)] if lines else []


def _twins(record: NightRecord) -> list[str]:
    """Return the section about the trainers' twins: each answer with its page and the next command."""
    lines = []
    for one in record.twins:
        mark = {"same": "✓", "unknown": "–"}.get(one.outcome, "✗")
        text = escape_markdown(shorten(one.line, MAX_HEADLINE_LENGTH))
        page = f" · page: {escape_markdown(one.page)}" if one.page else ""
        lines.append(f"- {mark} {escape_markdown(one.comparison)}: {text}{page}")
        lines += [f"  next: `{one.next}`"] if one.next else []
    return ["## Twins", "\n".join(lines)] if lines else []


def _bad(record: NightRecord) -> list[str]:
    lines = [
        f"- **{show_cell(result)}** {escape_markdown(result.cell.comparison)} {escape_markdown(result.cell.case)}"
        f"{_owner(result)}: {escape_markdown(shorten(result.headline, MAX_HEADLINE_LENGTH))}"
        for result in record.bad
    ]
    return ["## Needs a look", "\n".join(lines)] if lines else []


def _owner(result: CellResult) -> str:
    return f" ({owner_text(result.cell.owner)})" if result.cell.owner else ""


def owner_text(owner: str) -> str:
    """Return the owner for Markdown. `@name` is not escaped, so that a comment on GitHub notifies the owner."""
    return escape_markdown(owner).replace("&#64;", "@")


def _matrix(results: Sequence[CellResult]) -> str:
    comparisons = list(dict.fromkeys(result.cell.comparison for result in results))
    cases = list(dict.fromkeys(result.cell.case for result in results))
    found = {(result.cell.comparison, result.cell.case): result for result in results}
    owners = {result.cell.case: result.cell.owner for result in results}
    rows = []
    for case in cases:
        cells = [show_cell(found[name, case]) if (name, case) in found else "—" for name in comparisons]
        rows.append([escape_markdown(case), *cells, owner_text(owners[case]) or "—"])
    table = draw_table(["case", *map(escape_markdown, comparisons), "owner"], "l" * (len(comparisons) + 2), rows)
    counts = [f"{word} {n}" for word in OUTCOMES if (n := sum(r.word == word for r in results))]
    return "\n\n".join(["## Every case", table, " · ".join(counts)])


def _quarantine(record: NightRecord) -> list[str]:
    lines = [
        f"- {escape_markdown(result.cell.comparison)} {escape_markdown(result.cell.case)}: {show_cell(result)}; "
        f"{escape_markdown(result.cell.quarantine)}"
        for result in record.results
        if result.cell.quarantine
    ]
    return ["## In quarantine", "\n".join(lines)] if lines else []
