"""Writes the verification card as a page of the store."""

from pathlib import Path

from tasks.publish.content.card_words import (
    LEGEND,
    MEANINGS,
    SIGNS,
    Changed,
    describe_changes,
    names_of,
    sign_of,
    summarise,
)
from tasks.publish.content.templating import load_assets, make_environment
from tasks.publish.site.index import CARD
from tasks.publish.site.index_page import link_home, write_beside
from tasks.records.card import Card
from tasks.store import Store


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
            summary=summarise(card).split("\n"),
            names=names_of(card),
            home=link_home(store),
            **load_assets("site.js"),
        )
    )
    return write_beside(store, CARD, html)
