"""The command `maxview card`: shows which properties of every case are verified, failed or not verified."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from configs.read import CONFIG_ROOT
from flows.cli.commands.common_options import DEFAULT_OUT, Json, Out

if TYPE_CHECKING:
    from tasks.records.proof_card import Card

ROOT = CONFIG_ROOT.parent  # folder that contains configs/ and the trainer's sources


def card(
    comparison: str | None = None,
    /,
    *,
    markdown: Annotated[str | None, Parameter(help="Also write it to this file, as Markdown.")] = None,
    from_: Annotated[
        str | None, Parameter(name="--from", help="Draw this card of --json instead of the store's.")
    ] = None,
    check: Annotated[str | None, Parameter(help="Check a card of --json against the records of the store.")] = None,
    out: Out = DEFAULT_OUT,
    json_: Json = False,
) -> int:
    """Show for every case which properties are verified, failed or not verified.

    The properties: both arms have the same program, bits and checkpoint; equal losses; complete checkpoints; agreement
    with outside references; a preflight for a TPU slice.

    Exit status: 1 if --check finds a problem, else 0.

    Parameters
    ----------
    comparison
        A comparison, for example linen-vs-nnx; by default all that the store has.
    """
    from tasks.history.card_sources import find_changes
    from tasks.history.make_card import add_missing_cases, check_card, make_card
    from tasks.publish.site.card_page import (
        LEGEND,
        card_markdown,
        card_tables,
        describe_changes,
        summarise,
        write_card_page,
    )
    from tasks.store import open_store, write_atomically
    from tasks.store.mirror import out_option

    console = Console(highlight=False, markup=False, soft_wrap=True)
    if check is not None:
        problems = check_card(read_card(check), open_store(out, reading=True))
        for problem in problems:
            console.print(f"✗ {problem}")
        if not problems:
            console.print(f"✓ {check}: the signature and every record are as they were")
        return 1 if problems else 0
    store = None if from_ else open_store(out, reading=True)
    made = make_card(store, comparison, ROOT) if store else add_missing_cases(read_card(from_ or ""))
    if not made.rows:
        raise ValueError(f"{out} has no comparisons; first: maxview compare linen-vs-nnx --case all")
    changed = find_changes(made, ROOT)
    if markdown is not None:
        write_atomically(Path(markdown), card_markdown(made, changed))
    if json_:
        console.print(made.model_dump_json(indent=1))
        return 0
    wide = Console(highlight=False)
    for table in card_tables(made, changed, wide.width):
        wide.print(table)
    console.print(f"{LEGEND}\n")
    for line in (*describe_changes(made, changed), *summarise(made)):
        console.print(line)
    if store is not None and store.writable:
        console.print(f"page: {store.address_of(write_card_page(made, changed, store))}")
    place = shlex.join(out_option(store.address)) if store else f"--from {shlex.quote(from_ or '')}"
    console.print(f"next: {' '.join(filter(None, ('maxview card', place, '--json')))} > card.json")
    return 0


def read_card(name: str) -> "Card":
    """Return the card in a file that `maxview card --json` wrote. Raises ValueError for any other file."""
    from pydantic import ValidationError

    from tasks.records.proof_card import Card

    try:
        return Card.model_validate_json(Path(name).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{name}: is no card of `maxview card --json`: {reason}") from error
