"""Writes a card as a page of the site."""

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
from tasks.publish.site.index import CARD, PAGE, add_page
from tasks.publish.site.index_page import link_home, update_index
from tasks.records.card import Card
from tasks.store import Store, write_atomically


def write_card_page(card: Card, changed: Changed, store: Store) -> Path:
    """Write `card.html` at the top of the store; returns its path."""
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
            home=PAGE if store.mirror is None else link_home(store),
            **load_assets("site.js"),
        )
    )
    page = write_atomically(store.path / CARD, html)
    if store.writable:
        store.push(page)
        update_index(store, add_page(card=True))
    return page
