"""Renders the verification card as terminal tables."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from tasks.publish.content.card_words import SIGNS, Changed, names_of, sign_of
from tasks.records.card import Card
from tasks.records.text import visible

SHORT = {  # name of a card's item -> head of its column
    "same program": "program", "same bits": "bits", "same checkpoint": "cross", "equal losses": "losses",
    "checkpoints proved": "saves", "outside references": "outside", "preflight": "TPU",
}  # fmt: skip
WIDE = 110  # characters; narrower terminals get no column with the device and the date


def card_tables(card: Card, changed: Changed, width: int) -> Iterator[Table]:
    """Yield a table per comparison; `width`: characters per line of the terminal; `changed`: see `Changed`."""
    for name in names_of(card):
        rows = [row for row in card.rows if row.comparison == name]
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
