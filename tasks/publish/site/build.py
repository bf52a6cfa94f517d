"""Brings the pages of a store up to date: writes missing and stale comparison pages, then the index page."""

from collections.abc import Callable

from configs.schema import Frozen
from tasks.publish.site.index import StoreIndex, gather_index, in_order, index_comparison
from tasks.publish.site.index_page import update_index, write_neighbours
from tasks.publish.site.page_stamp import is_current
from tasks.publish.site.publish import write_comparison_page
from tasks.store import Store, StoreError


class Built(Frozen):
    """The result of a build."""

    written: int  # pages
    kept: int  # pages that were up to date
    unread: tuple[str, ...] = ()  # error messages of the records that could not be read


def build_site(store: Store, *, tell: Callable[[str], None] = lambda page: None) -> Built:
    """Write every page that is missing, or older than its record or the code that draws it; then write the index page.

    `tell` is called with the address of each written page. Raises StoreError if a page cannot be written.
    """
    store.refresh("comparisons")
    written, kept, unread = [], 0, []
    for directory in store.comparisons():
        try:
            if is_current(directory.page, directory.comparison.read_bytes()):
                kept += 1
                continue
            record = directory.read_comparison(listed=True)
            if record is not None:
                written.append(index_comparison(record))
                tell(store.address_of(write_comparison_page(record, store)))
        except StoreError as error:
            unread.append(str(error))

    def change(index: StoreIndex) -> StoreIndex:
        known = in_order([*index.comparisons, *written])
        return (
            index.model_copy(update={"comparisons": known})
            if len(known) == len(written) + kept
            else gather_index(store)
        )

    index = update_index(store, change)
    for comparison in {item.comparison for item in written}:
        write_neighbours(store, index, comparison)
    return Built(written=len(written), kept=kept, unread=tuple(unread))
