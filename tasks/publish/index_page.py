"""Turns the index of a store into its page, and keeps the page up to date beside other writers."""

import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from tasks.diff.rows import NOT_JUDGED
from tasks.publish import words
from tasks.publish.index import (
    DATA,
    HISTORY,
    MARK,
    PAGE,
    Change,
    IndexedCell,
    StoreIndex,
    gather_index,
    is_ours,
    parse_index,
)
from tasks.publish.templating import make_environment, read_asset
from tasks.publish.words import WORST_FIRST
from tasks.store import Store, StoreError
from tasks.store.files import AlreadyThereError
from tasks.store.locks import hold

SHOWN = tuple(word for word in WORST_FIRST if word != NOT_JUDGED)
LOCK = ".index.lock"
ATTEMPTS = 20
PAUSE_S = 0.2  # at first, and at random: writers that met once should not meet again
LONGEST_WAIT_S = 120.0


def update_index(store: Store, change: Change) -> None:
    """Write the index page with the change in it. A page that is missing or damaged is first made out of the folders.

    Two writers lose nothing of each other's: on this machine one waits for the other, in a bucket a page is only
    replaced over the version that was read. Raises StoreError.
    """
    with _alone(store):
        for attempt in range(ATTEMPTS):
            entry = store.files.stat(PAGE)
            page = _read(store) if entry else None
            if page is not None and not is_ours(page):
                logging.getLogger(__name__).warning("%s is none of maxview's pages: left as it is", _place(store))
                return
            index = (parse_index(page) if page is not None else None) or gather_index(store)
            text = render_index(change(index), store).encode()
            try:
                store.files.write(PAGE, text, create=entry is None, version=entry.version if entry else None)
            except AlreadyThereError:
                time.sleep(random.uniform(0, PAUSE_S * (attempt + 1)))
            else:
                return
    raise StoreError(f"{_place(store)}: is changed again and again by others; try again")


def rebuild_index(store: Store) -> None:
    """Write the index page anew out of the folders of the store alone."""
    update_index(store, lambda _: gather_index(store))


def link_home(store: Store) -> str:
    """What leads to the index from a page that is not beside it."""
    return store.link_to(store.path / PAGE)


def _place(store: Store) -> str:
    return store.files.url(PAGE)


def _read(store: Store) -> str | None:
    try:
        return store.files.read(PAGE).decode("utf-8", "replace")
    except FileNotFoundError:  # removed meanwhile: then writing over it fails, too
        return None


@contextmanager
def _alone(store: Store) -> Iterator[None]:
    """Of the writers of this machine the only one; a bucket has its preconditions."""
    if store.mirror is not None:
        yield
        return
    until = time.monotonic() + LONGEST_WAIT_S

    def wait(who: str) -> None:
        if time.monotonic() > until:
            raise StoreError(f"{_place(store)}: {who} has not let go of {LOCK} for {LONGEST_WAIT_S:.0f} s; end it")
        time.sleep(random.uniform(0.01, 0.05))

    with hold(store.path / LOCK, wait):
        yield


def render_index(index: StoreIndex, store: Store) -> str:
    """The page, with the index in it as data."""

    def link(name: str) -> str:
        return quote(name) if store.mirror is None else store.link_to(store.path / name)

    page = (
        make_environment(words=words, link=link, format_moment=words.format_moment)
        .get_template("index.html.j2")
        .render(
            index=index,
            counts=[
                (word, sum(item.verdict == word for item in index.comparisons))
                for word in WORST_FIRST
                if word != NOT_JUDGED
            ],
            groups=_groups(index),
            nights=[(night, *_matrix(night.cells)) for night in index.nights],
            history=HISTORY if index.history else "",
            mark=Markup(MARK),
            data=index.model_dump(mode="json"),
            style=Markup(read_asset("page.css")),
        )
    )
    assert DATA.search(page), "the page would not be read again"
    return page


def _groups(index: StoreIndex) -> dict[str, list[Any]]:
    """The comparisons by name."""
    found: dict[str, list[Any]] = {}
    for item in index.comparisons:
        found.setdefault(item.comparison, []).append(item)
    return found


def _matrix(cells: tuple[IndexedCell, ...]) -> tuple[list[str], dict[str, dict[str, IndexedCell]]]:
    """The comparisons of a night, and of each case its cell of each comparison."""
    comparisons = list(dict.fromkeys(cell.comparison for cell in cells))
    rows: dict[str, dict[str, IndexedCell]] = {}
    for cell in cells:
        rows.setdefault(cell.case, {})[cell.comparison] = cell
    return comparisons, rows
