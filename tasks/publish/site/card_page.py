"""Draws the verification card: its words, its tables in a terminal, its Markdown, and its page in a store.

The card states for every case of a comparison which properties of the two compared versions (the arms) are verified,
such as equal losses.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from tasks.publish.content.templating import load_assets, make_environment
from tasks.publish.site.index import CARD
from tasks.publish.site.index_page import link_home, write_beside
from tasks.records.proof_card import UNCOMMITTED, Card, CardItem, CardRow, CardState, key_of
from tasks.records.text import visible
from tasks.store import Store

SIGNS: dict[CardState, tuple[str, str, str]] = {  # sign, verdict with the same colour on the page, style in a terminal
    "verified": ("✓", "same", "green"),
    "failed": ("✗", "regressed", "red"),
    "not verified": ("–", "unknown", "yellow"),
}
MEANINGS = {
    "same program": "the lowered training step of both arms is the same computation",
    "same bits": "every loss, every norm and all arrays after the last step are equal bit for bit",
    "same checkpoint": "one arm restored the other's checkpoint and trained on with equal losses",
    "equal losses": "every step's loss is equal, by the tolerances of the comparison",
    "checkpoints proved": "every checkpoint of both arms was read back and is complete",
    "outside references": "logits, losses, gradients and optimizer steps equal those of other libraries, within limits",
    "preflight": "both arms compile for a TPU slice and fit into its memory",
}
LEGEND = "✓ verified · (✓) verified, but the source has changed since · ✗ failed · – not verified"
SHOWN = 3  # limit of changed files that a line names
SHORT = {  # name of a card's item -> head of its column in a terminal
    "same program": "program", "same bits": "bits", "same checkpoint": "cross", "equal losses": "losses",
    "checkpoints proved": "saves", "outside references": "outside", "preflight": "TPU",
}  # fmt: skip
WIDE = 110  # characters per line; narrower terminals get no column with the device and the date

# `key_of` an item of the card -> source files that have changed since it was verified
type Changed = Mapping[tuple[str, ...], Sequence[str]]


def sign_of(row: CardRow, item: CardItem, changed: Changed) -> str:
    """Return ✓, ✗ or –, in brackets if the item's sources have changed."""
    sign = SIGNS[item.state][0]
    return f"({sign})" if changed.get(key_of(row, item)) else sign


def group_rows(card: Card) -> dict[str, list[CardRow]]:
    """Return comparison → its rows, in the order of the card."""
    groups: dict[str, list[CardRow]] = {}
    for row in card.rows:
        groups.setdefault(row.comparison, []).append(row)
    return groups


def summarise(card: Card) -> list[str]:
    """Return a line per comparison: its trainers, the number of compared cases, and per item how many are verified.

    An item that failed in some cases also has the number of these cases.
    """
    return [_sentence(name, rows) for name, rows in group_rows(card).items()]


def _sentence(name: str, rows: Sequence[CardRow]) -> str:
    cases = len({row.case for row in rows})
    parts = []
    for head in rows[0].items:
        states = [(row.case, item.state) for row in rows for item in row.items if item.name == head.name]
        failed = {case for case, state in states if state == "failed"}
        verified = {case for case, state in states if state == "verified"} - failed
        parts.append(f"{head.name} in {len(verified) or 'none'}" + f", failed in {len(failed)}" * bool(failed))
    arms = dict.fromkeys(label.split(" · ", 1)[0] for row in rows for label in row.arms if label)
    trainers = dict.fromkeys(trainer for row in rows for trainer in row.trainers)
    who = f" ({' and '.join(arms)} of {', '.join(trainers)})" if trainers else ""
    compared = len({row.case for row in rows if row.target})
    never = f", {cases - compared} never compared" * (compared < cases)
    return f"{name}{who}, {compared} of {cases} cases compared{never}: {'; '.join(parts)}."


def describe_changes(card: Card, changed: Changed) -> list[str]:
    """Return a line for each set of changed files, with the number of rows that depend on these files."""
    files: dict[tuple[str, ...], set[str]] = {}
    for row in card.rows:
        for item in row.items:
            if found := changed.get(key_of(row, item)):
                files.setdefault(tuple(found), set()).add(f"{row.comparison} {row.case} {row.target}")
    lines = []
    for names, rows in files.items():
        more = f" and {len(names) - SHOWN} more" * (len(names) > SHOWN)
        where = f"{len(rows)} row{'s' * (len(rows) > 1)}"
        lines.append(f"(✓) in {where}: changed since: {', '.join(names[:SHOWN])}{more}")
    return lines


def card_tables(card: Card, changed: Changed, width: int) -> Iterator[Table]:
    """Yield a table per comparison; `width`: characters per line of the terminal; `changed`: see `Changed`."""
    for name, rows in group_rows(card).items():
        table = Table(title=visible(name), title_justify="left", box=None, pad_edge=False, header_style="bold")
        table.add_column("case", no_wrap=True)
        for item in rows[0].items:
            table.add_column(SHORT.get(item.name, item.name), no_wrap=True)
        if width >= WIDE:
            table.add_column("trained on", overflow="fold")
        for row in rows:
            signs = [Text(sign_of(row, item, changed), style=SIGNS[item.state][2]) for item in row.items]
            where = f"{row.target}: {row.device}, {row.day}" if row.target else "never compared"
            table.add_row(Text(visible(row.case)), *signs, *([Text(visible(where))] if width >= WIDE else []))
        yield table


def card_markdown(card: Card, changed: Changed) -> str:
    """Return the card as Markdown, for a file or a pull request; `changed`: see `Changed`."""
    legend = LEGEND.replace("– not verified", "– **not verified**")
    lines = ["# Verification card", "", legend, "", *(f"- {_cell(line)}" for line in summarise(card)), ""]
    lines += ["| column | ✓ means |", "|---|---|", *(f"| {item} | {text} |" for item, text in MEANINGS.items()), ""]
    for name, rows in group_rows(card).items():
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
    """Return the lines of a table with a row per outside reference and case; empty without checks.

    Of several checks of one quantity, the row has the difference that is largest relative to its limit.
    """
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
    """Return Markdown lines with the commands that repeat the rows of the comparison `name`."""
    targets = list(dict.fromkeys(row.target for row in rows if row.target)) or ["TARGET"]
    commands = [f"maxview compare {name} --case CASE --target {target}" for target in targets]
    commands += [f"maxview preflight {name} --case CASE --target SLICE"]
    commands += list(dict.fromkeys(check.command for row in rows for check in row.checks))
    return ["To repeat a row:", "```", *commands, "```", ""]


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|")


def write_card_page(card: Card, changed: Changed, store: Store) -> Path:
    """Write `card.html` into the store's top folder; return its path. `changed`: see `Changed`."""
    html = (
        make_environment(signs=SIGNS, sign_of=sign_of, meanings=MEANINGS)
        .get_template("card.html.j2")
        .render(
            card=card,
            changed=changed,
            changes=describe_changes(card, changed),
            legend=LEGEND,
            summary=summarise(card),
            comparisons=group_rows(card),
            home=link_home(store),
            **load_assets("site.js"),
        )
    )
    return write_beside(store, CARD, html)
