"""Every link of a site leads somewhere: of a store and of the example site, opened as files and served."""

import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

from flows.cli.demo import make_demo
from questions.bisect.page import publish_bisection
from questions.history.page import add_history_to_demo
from questions.invariants.judge_twin import answer
from questions.invariants.page import publish_invariants
from questions.invariants.twin_files import load_twins
from questions.invariants.twin_records import InvariantsRecord
from tasks.publish.site.comparison_pages import publish_comparison
from tasks.publish.site.index import PAGE
from tasks.publish.site.index_page import render_not_found
from tasks.records.bisection import BisectedPoint, Bisection
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import Commit
from tasks.services.site_server import make_server
from tasks.store.store import Store, open_store

LOG_LINE = re.compile(r"(.+)-L\d+")  # an anchor that the page's script makes in the log with this prefix
OF_NAVIGATION = ("history", "invariants")  # anchors of the front page, which leads on to the page if there is one


class Links(HTMLParser):
    """The links, scripts and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: dict[str, str | None] = {}  # id → the element's own link
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        if own.get("id"):
            self.anchors[str(own["id"])] = own.get("href")
        self.links += [value for key in ("href", "src") if (value := own.get(key)) and not value.startswith("data:")]


def crawl(front: str, read: Callable[[str], str | None], *more: str) -> tuple[dict[str, Links], list[str]]:
    """Follow all links from a front page and more pages. Returns the pages, and the dead links: `page → link`."""
    pages: dict[str, Links] = {}
    dead: list[str] = []
    waiting = [("", one) for one in (front, *more)]
    while waiting:
        page, link = waiting.pop()
        address, anchor = urldefrag(urljoin(page, link))
        if urlsplit(address)[:2] != urlsplit(front)[:2]:
            continue  # another site
        if address not in pages:
            text = read(address)
            if text is None:
                dead.append(f"{page} → {link}")
                continue
            pages[address] = Links(text if address.endswith(".html") else "")
            waiting += [(address, one) for one in pages[address].links]
        if anchor and address.endswith(".html"):
            known, line = pages[address].anchors, LOG_LINE.fullmatch(anchor)
            if anchor not in known and not (line and f"log-{line[1]}" in known):
                dead.append(f"{page} → {link}")
            elif address == front and anchor in OF_NAVIGATION and page != front:
                waiting.append((address, known[anchor] or "#headline"))
    return pages, dead


def read_file(address: str) -> str | None:
    path = Path(unquote(urlsplit(address).path))
    return path.read_text(errors="replace") if path.is_file() else None


def read_served(address: str) -> str | None:
    try:
        with urllib.request.urlopen(address, timeout=60) as response:
            return str(response.read().decode(errors="replace"))
    except urllib.error.HTTPError:
        return None


@contextmanager
def served(store: Store) -> Iterator[str]:
    """Serve the site in a thread; yields the address of its front page."""
    server = make_server(store.path, not_found=render_not_found())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/{PAGE}"
        server.should_exit = True
        thread.join()


def check(store: Store, *more: str) -> set[str]:
    """Check every link, of files and served; return the names of the pages that were reached.

    more: names of pages without a link from the front page.
    """
    front = (store.path / PAGE).as_uri()
    of_files, dead = crawl(front, read_file, *(urljoin(front, name) for name in more))
    assert dead == []
    with served(store) as address:
        of_server, dead = crawl(address, read_served, *(urljoin(address, name) for name in more))
    assert dead == []
    names = {one.removeprefix(front.removesuffix(PAGE)) for one in of_files}
    assert names == {one.removeprefix(address.removesuffix(PAGE)) for one in of_server}
    return names


def add_invariants(store: Store) -> str:
    """Publish a page of invariants; return its name in the store."""
    results = (answer(load_twins(("scan",))[0], "01_base", "same", "equal", gap=1e-15),)
    record = InvariantsRecord(id="a", trainer="maxview", version="v", created="2026-11-25", results=results)
    return publish_invariants(record, store)[1].relative_to(store.path).as_posix()


def test_no_link_of_a_store_is_dead(tmp_path: Path, record_002: ComparisonRecord, record_000: ComparisonRecord) -> None:
    store = open_store(str(tmp_path / "out"))
    for record in (record_002, record_000):
        publish_comparison(record, store)
    own = {f"comparisons/{one.comparison}/{one.case}/{one.id}/index.html" for one in (record_002, record_000)}
    assert own <= check(store)  # neither a history nor invariants
    add_history_to_demo(store.address, print)
    commit = Commit(sha="a" * 40, time="2026-01-01T00:00:00+00:00", author="A", subject="s")
    bisection = Bisection(
        id="x", comparison="main-vs-branch", case="01_base", target="cpu", created="2026-01-01T00:00:00+00:00",
        good="v1", bad="main", metric="step_time_s", title="Step time, steady", outcome="no difference",
        headline="none", points=(BisectedPoint(commit=commit, mark="good"),) * 2,
    )  # fmt: skip
    bisected = publish_bisection(bisection, store).relative_to(store.path).as_posix()
    invariants = add_invariants(store)
    assert {*own, "history.html", invariants} <= check(store, bisected)


@pytest.mark.long
def test_no_link_of_the_example_site_is_dead(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "demo"))
    make_demo((), store.address, lambda: add_history_to_demo(store.address, print))
    invariants = add_invariants(store)
    assert {"history.html", invariants} <= check(store)


@pytest.mark.long
def test_the_navigation_of_a_comparison_leads_to_the_pages(
    visit: Any, tmp_path: Path, record_002: ComparisonRecord
) -> None:
    store = open_store(str(tmp_path))
    address = publish_comparison(record_002, store).as_uri()
    page = visit(address).page
    page.click("nav.site #invariants")
    page.wait_for_url("**/index.html#invariants")
    shown = "getComputedStyle(document.querySelector('#invariants'), '::after').content"
    assert "maxview invariants" in page.evaluate(shown)
    add_history_to_demo(store.address, print)
    places = {"invariants": store.path / add_invariants(store), "history": store.path / "history.html"}
    for name, place in places.items():
        page.goto(address)
        page.click(f"nav.site #{name}")
        page.wait_for_url(place.as_uri())
