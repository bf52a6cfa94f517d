"""Renders the verification card (which equalities are verified, by case) as Markdown."""

from collections.abc import Sequence

from tasks.publish.content.card_words import LEGEND, MEANINGS, Changed, describe_changes, names_of, sign_of, summarise
from tasks.records.card import UNCOMMITTED, Card, CardRow
from tasks.records.text import visible


def card_markdown(card: Card, changed: Changed) -> str:
    """Return the card as Markdown, for a file or a pull request; `changed`: see `Changed`."""
    legend = LEGEND.replace("– not verified", "– **not verified**")
    lines = ["# Verification card", "", legend, "", *(f"- {_cell(line)}" for line in summarise(card).split("\n")), ""]
    lines += ["| column | ✓ means |", "|---|---|", *(f"| {item} | {text} |" for item, text in MEANINGS.items()), ""]
    for name in names_of(card):
        rows = [row for row in card.rows if row.comparison == name]
        heads = [item.name for item in rows[0].items]
        lines += [f"## {_cell(name)}", "", f"| case | {' | '.join(heads)} | trained on | trainer | date |"]
        lines += ["|---|" + ":-:|" * len(heads) + "---|---|---|"]
        lines += [f"| {' | '.join(map(_cell, _cells(row, changed)))} |" for row in rows] + [""]
        lines += [*_failures(rows), *_references(rows), *_commands(name, rows)]
    lines += [text for line in describe_changes(card, changed) for text in (line, "")]
    return "\n".join([*lines, f"Signature: `{card.signature}`", ""])


def _cells(row: CardRow, changed: Changed) -> list[str]:
    signs = [sign_of(row, item, changed) for item in row.items]
    signs = ["**not verified**" if sign == "–" else sign for sign in signs]
    where = f"{row.target}: {row.device}" if row.target else "**never compared**"
    return [row.case, *signs, where, ", ".join(row.trainers), row.day]


def _failures(rows: Sequence[CardRow]) -> list[str]:
    failed = [(row, item) for row in rows for item in row.items if item.state == "failed"]
    lines = [f"- ✗ {_cell(row.case)}, {item.name}: {_cell(item.evidence)}" for row, item in failed]
    return [*lines, ""] if lines else []


def _references(rows: Sequence[CardRow]) -> list[str]:
    """Return a table of outside references: of each quantity, the difference that comes closest to its limit."""
    checks = list(dict.fromkeys(check for row in rows for check in row.checks))
    if not checks:
        return []
    lines = ["| outside reference | case | largest difference (limit) | trainer | date |", "|---|---|---|---|---|"]
    for reference, case in dict.fromkeys((check.reference.partition(",")[0], check.case) for check in checks):
        same = [one for one in checks if one.case == case and one.reference.partition(",")[0] == reference]
        worst = {one.quantity: one for one in sorted(same, key=lambda one: one.difference / one.limit)}
        told = "; ".join(f"{name} {one.difference:.1e} ({one.limit:.0e})" for name, one in sorted(worst.items()))
        commits = ", ".join(dict.fromkeys((one.commit or "")[:9] or UNCOMMITTED for one in same))
        lines.append(f"| {_cell(reference)} | {case} | {_cell(told)} | {commits} | {max(one.day for one in same)} |")
    return [*lines, ""]


def _commands(name: str, rows: Sequence[CardRow]) -> list[str]:
    """Return the commands that repeat the rows of the comparison `name`."""
    targets = list(dict.fromkeys(row.target for row in rows if row.target)) or ["TARGET"]
    commands = [f"maxview compare {name} --case CASE --target {target}" for target in targets]
    commands += [f"maxview preflight {name} --case CASE --target SLICE"]
    commands += list(dict.fromkeys(check.command for row in rows for check in row.checks))
    return ["To repeat a row:", "```", *commands, "```", ""]


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|")
