"""`maxview card`: what was verified of every case, and what was not."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from flows.cli.commands.options import DEFAULT_OUT, Json, Out


def card(
    comparison: str | None = None,
    /,
    *,
    markdown: Annotated[str | None, Parameter(help="Also write it to this file, as Markdown.")] = None,
    check: Annotated[str | None, Parameter(help="Check a card of --json against the records of the store.")] = None,
    out: Out = DEFAULT_OUT,
    json_: Json = False,
) -> int:
    """Show what was verified of every case: floors, losses, checkpoints, outside references, preflight.

    Parameters
    ----------
    comparison
        A comparison, for example linen-vs-nnx; by default every one that the store has.
    """
    from pydantic import ValidationError

    from tasks.history.card import check_card, make_card
    from tasks.publish.site.card_page import card_markdown, card_tables, summarise, write_card_page
    from tasks.records.card import Card
    from tasks.store import open_store, write_atomically

    console = Console(highlight=False, markup=False, soft_wrap=True)
    if check is not None:
        try:
            given = Card.model_validate_json(Path(check).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"{check}: is no card of `maxview card --json`: {reason}") from error
        problems = check_card(given, open_store(out, reading=True))
        for problem in problems:
            console.print(f"✗ {problem}")
        if not problems:
            console.print(f"✓ {check}: the signature and every record are as they were")
        return 1 if problems else 0
    store = open_store(out, reading=True)
    made = make_card(store, comparison)
    if markdown is not None:
        write_atomically(Path(markdown), card_markdown(made))
    if json_:
        console.print(made.model_dump_json(indent=1))
        return 0
    if not made.rows:
        raise ValueError(f"{store.address} has no comparisons; first: maxview compare linen-vs-nnx --case all")
    wide = Console(highlight=False)
    for table in card_tables(made, wide.width):
        wide.print(table)
    wide.print("✓ verified  ✗ failed  – not verified\n")
    console.print(summarise(made))
    if store.writable:
        console.print(f"page: {store.address_of(write_card_page(made, store))}")
    console.print("next: maxview card --json > card.json")
    return 0
