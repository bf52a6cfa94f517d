"""Finds the address of a published page: its path, its address in the store, and its link for browsers."""

import os
from pathlib import Path
from urllib.parse import quote

from configs.frozen import Frozen
from tasks.store.store import Store

# environment variable with the URL of the served store: browsers block links from Prefect to local files
SITE = "MAXVIEW_SITE"


class PublishedPage(Frozen):
    """The address of a page."""

    path: Path  # on this machine
    address: str  # path or URL in the store
    link: str  # URL for browsers

    @property
    def place(self) -> str:
        """Return the address to print in a terminal, where it can be clicked: a file's URL, or the bucket's address."""
        return self.path.absolute().as_uri() if self.address == str(self.path) else self.address

    @property
    def is_served(self) -> bool:
        """Whether the link works on any machine."""
        return self.link.startswith(("http://", "https://"))

    @property
    def shown(self) -> str:
        """Return the address to print in a log: a link that works on any machine, else the address in the store."""
        return self.link if self.is_served else self.address


def find_page(path: Path, store: Store) -> PublishedPage:
    """Return the address of a page in the store. Its link begins with MAXVIEW_SITE if set, else the store makes it.

    Raises ValueError if MAXVIEW_SITE is not a URL.
    """
    base = os.environ.get(SITE, "").rstrip("/")
    if base and not base.startswith(("http://", "https://")):
        raise ValueError(f"{SITE}={base!r:.80}: say where the store is served, for example http://host:8000")
    link = f"{base}/{quote(path.relative_to(store.path).as_posix())}" if base else store.link_to(path)
    return PublishedPage(path=path, address=store.address_of(path), link=link)
