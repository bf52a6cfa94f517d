"""Draws a card: as Markdown, as a table in a terminal, and as a page of the site."""

from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup
from rich.table import Table
from rich.text import Text

from tasks.publish.content.templating import hash_of, make_environment, read_asset
from tasks.publish.site.index import CARD, PAGE, add_card
from tasks.publish.site.index_page import link_home, update_index
from tasks.records.card import Card, CardRow, CardState
from tasks.records.text import visible
from tasks.store import Store, write_atomically

SIGNS: dict[CardState, tuple[str, str, str]] = {  # sign, word on the page, style in a terminal
    "verified": ("✓", "same", "green"),
    "failed": ("✗", "regressed", "red"),
    "not verified": ("–", "unknown", "yellow"),
}


SHORT = {  # heads of columns in a terminal
    "same program": "program", "same bits": "bits", "same checkpoint": "cross", "equal losses": "losses",
    "checkpoints proved": "saves", "outside references": "outside", "preflight": "TPU",
}  # fmt: skip
WIDE = 110


def summarise(card: Card) -> str:
    """Return a sentence per comparison: how many of its cases have each proof."""
    lines = []
    for name in dict.fromkeys(row.comparison for row in card.rows):
        rows = [row for row in card.rows if row.comparison == name]
        cases = len({row.case for row in rows})
        proved: dict[str, set[str]] = {}
        for row in rows:
            for item in row.items:
                proved.setdefault(item.name, set()).update({row.case} if item.state == "verified" else ())
        lines.append(f"{name}: " + "; ".join(f"{item} in {len(found)} of {cases}" for item, found in proved.items()))
    return "\n".join(lines)


def card_markdown(card: Card) -> str:
    """Return the card as Markdown, for a file or a pull request."""
    lines = ["# What was verified", "", "✓ verified · ✗ failed · – **not verified**", ""]
    for name in dict.fromkeys(row.comparison for row in card.rows):
        rows = [row for row in card.rows if row.comparison == name]
        heads = [item.name for item in rows[0].items]
        lines += [f"## {_cell(name)}", "", f"| case | {' | '.join(heads)} | trained on | commits | day |"]
        lines += ["|---|" + ":-:|" * len(heads) + "---|---|---|"]
        lines += [f"| {' | '.join(map(_cell, _cells(row)))} |" for row in rows] + [""]
    lines += [f"    {row.command}" for row in card.rows[:1]]
    return "\n".join([*lines, "", f"Signature: `{card.signature}`", ""])


def _cells(row: CardRow) -> list[str]:
    signs = [SIGNS[item.state][0] if item.state != "not verified" else "– not verified" for item in row.items]
    where = f"{row.target}, {row.device}" if row.target else "– not trained"
    commits = " → ".join(dict.fromkeys(arm.rpartition(" · ")[2] for arm in row.arms if arm))
    return [row.case, *signs, where, commits, row.day]


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|")


def card_tables(card: Card, width: int) -> Iterator[Table]:
    """Yield a table per comparison for a terminal of so many columns."""
    for name in dict.fromkeys(row.comparison for row in card.rows):
        rows = [row for row in card.rows if row.comparison == name]
        table = Table(title=visible(name), title_justify="left", box=None, pad_edge=False, header_style="bold")
        table.add_column("case", no_wrap=True)
        for item in rows[0].items:
            table.add_column(SHORT.get(item.name, item.name), no_wrap=True)
        if width >= WIDE:
            table.add_column("trained on", overflow="fold")
        for row in rows:
            signs = [Text(SIGNS[item.state][0], style=SIGNS[item.state][2]) for item in row.items]
            where = f"{row.target}, {row.device}, {row.day}" if row.target else "not trained"
            table.add_row(Text(visible(row.case)), *signs, *([Text(visible(where))] if width >= WIDE else []))
        yield table


def write_card_page(card: Card, store: Store) -> Path:
    """Write `card.html` at the top of the store; returns its path."""
    style = read_asset("page.css")
    html = (
        make_environment(signs=SIGNS)
        .get_template("card.html.j2")
        .render(
            card=card,
            summary=summarise(card).split("\n"),
            names=list(dict.fromkeys(row.comparison for row in card.rows)),
            home=PAGE if store.mirror is None else link_home(store),
            style=Markup(style),
            style_hash=hash_of(style),
        )
    )
    page = write_atomically(store.path / CARD, html)
    if store.writable:
        store.push(page)
        update_index(store, add_card)
    return page
