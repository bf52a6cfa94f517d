"""Logs with active content: archived, compared and shown as text, on terminals, pages and in Prefect's Markdown."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from markdown_it import MarkdownIt
from rich.console import Console

from flows.cli.app import call_command
from tasks.diff.compare_logs import archive, compare_pair
from tasks.ingest.given_logs import read_pair
from tasks.launch.logs import LogLine, watch
from tasks.publish.markdown.artifacts import summary_description, summary_markdown
from tasks.publish.site.comparison_pages import publish_comparison
from tasks.publish.terminal.report import print_comparison
from tasks.records.compared_case import ComparisonRecord
from tasks.records.next_step import NextStep
from tasks.scrape.read_log import scrape
from tasks.scrape.window import LogFormatError
from tasks.scrape.wrappings.unpack import unpack_archive
from tasks.store.store import open_store

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright here")

pytestmark = pytest.mark.flows
CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), "")
DEATH = "ValueError: \x1b]0;owned\x07<script>window.owned=9</script> ![x](http://evil.invalid/z.png)"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


@pytest.fixture
def logs(write_log: Callable[..., Path]) -> tuple[Path, Path]:
    """A run that ended well, with a hostile name, and a run with a hostile error message."""
    death = f'Traceback (most recent call last):\n  File "<img src=x>", line 1, in <svg>\n{DEATH}'
    return write_log("<b onclick=window.owned=8>{{7*7}}.txt"), write_log("; touch owned #.txt", code=1, last=death)


@pytest.fixture
def compared(logs: tuple[Path, Path], tmp_path: Path) -> ComparisonRecord:
    """Their comparison, archived in a store."""
    return compare_pair(archive(read_pair(logs), open_store(tmp_path / "out")), case="logs", aa=False)


def test_the_terminal_shows_text_only(compared: ComparisonRecord, find_acting: Callable[[str], list[str]]) -> None:
    console = Console(width=100, force_terminal=False, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    print_comparison(console, compared, page="out/\x1b[2J/index.html")
    shown = console.export_text(styles=False)
    console.file.close()
    assert "owned" in shown  # it is shown, as text
    assert find_acting(shown) == []


def test_scrape_prints_text_only(
    logs: tuple[Path, Path], capsys: pytest.CaptureFixture[str], find_acting: Callable[[str], list[str]]
) -> None:
    for log in logs:
        assert call_command(["scrape", str(log)]) == 0
        shown = capsys.readouterr()
        assert find_acting(shown.out + shown.err) == []
        assert call_command(["scrape", str(log), "--format", "json"]) == 0
        assert find_acting(capsys.readouterr().out) == []


def test_progress_lines_are_text(logs: tuple[Path, Path], find_acting: Callable[[str], list[str]]) -> None:
    events = watch([logs[1].read_bytes(), b"nul \0 nul\n"])
    lines = [event.text for event in events if isinstance(event, LogLine)]
    assert len(lines) > 30
    assert find_acting("\n".join(lines)) == []


def test_prefects_markdown_contains_no_links_or_mentions(compared: ComparisonRecord, acting: tuple[str, ...]) -> None:
    told = compared.conclusion.replace(died=(), blocked=" ".join(acting))
    spoilt = compared.replace(conclusion=told, next_step=NextStep(kind="by hand", argv=tuple(acting)))
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    for text in (summary_markdown(spoilt), summary_description(spoilt)):
        assert "window.owned" in text
        for token in _all_tokens(parser, text):
            assert token.type not in ("html_block", "html_inline", "link_open"), token
            if token.type == "image":
                assert token.attrs["src"].startswith("data:image/svg+xml;base64,")
        # addresses that a renderer turns into links by itself
        outside_code = re.sub(r"(`+) .*? \1(?!`)", "", text)
        assert "://" not in outside_code


def _all_tokens(parser: MarkdownIt, text: str) -> Iterator[Any]:
    for token in parser.parse(text):
        yield token
        yield from token.children or ()


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")
def test_the_page_is_inert(compared: ComparisonRecord, tmp_path: Path) -> None:
    page = publish_comparison(compared, open_store(tmp_path / "out"))
    requests: list[str] = []
    complaints: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS, timeout=180_000)
        tab = browser.new_page()
        tab.set_default_timeout(120_000)
        tab.on("request", lambda request: requests.append(request.url))
        tab.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready=yes]", state="attached")
        tab.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
        tab.wait_for_timeout(300)
        assert tab.evaluate("window.owned") is None
        injected = "main script, main iframe, main svg[onload], img[src^=http], [onclick], [onerror]"
        assert tab.locator(injected).count() == 0
        links = tab.locator("a[href]").evaluate_all("all => all.map(one => one.getAttribute('href'))")
        text = tab.locator("main").inner_text()
        browser.close()
    outside = {link.partition("#")[0] for link in links if not link.startswith(("#", "logs/", "comparison.json"))}
    assert outside == {"../../../../index.html"}  # of the store
    assert "window.owned=1" in text
    assert [address for address in requests if not address.startswith(("file:", "data:", "blob:"))] == []
    assert complaints == []


def test_all_files_are_in_the_output_folder(compared: ComparisonRecord, tmp_path: Path) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    page = publish_comparison(compared, open_store(tmp_path / "out"))
    assert page.is_relative_to(tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == before
    names = [path.name for path in (tmp_path / "out").rglob("*")]
    assert all(name.isascii() and not set(name) & set("<>&;|$`'\" ") for name in names)


@pytest.mark.long
def test_the_whole_command(
    logs: tuple[Path, Path],
    tmp_path: Path,
    find_acting: Callable[[str], list[str]],
    clean_environment: dict[str, str],
    prefect_server: str,
) -> None:
    """`maxview ingest` as a user runs it."""
    environment = clean_environment | {"PREFECT_API_URL": prefect_server, "PREFECT_HOME": str(tmp_path / "prefect")}
    environment |= {"PYTHONPATH": str(Path.cwd()), "COLUMNS": "100"}
    argv = [sys.executable, "-m", "flows.cli", "ingest", *map(str, logs), "--case", "logs", "--out", "o"]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1, done.stderr  # the second run died
    assert "ValueError" in done.stdout
    assert find_acting(done.stdout + done.stderr) == []
    assert not list(tmp_path.glob("**/owned*"))


@pytest.mark.long
@pytest.mark.parametrize("pack", [lambda data: gzip.compress(data, 1), lambda data: zstandard.compress(data, 3)])
def test_archives_that_grow_without_end_are_refused(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(bytes(300_000_000))
    assert len(packed) < 1_400_000
    with pytest.raises(LogFormatError, match=r"log: .*unpack it yourself"):
        for _ in unpack_archive(lambda: iter([packed]), "log")[1]():
            pass


def test_a_small_archive_becomes_large_piece_by_piece() -> None:
    """8 KiB of zstd can become 256 MB, which must not be in memory at once: four bytes make a block of 128 KiB; 512
    bytes are unpacked at a time, beside 1 MB of waiting data.
    """
    packed = zstandard.compress(bytes(100_000_000))
    assert len(packed) < 8 << 10
    pieces = [len(text) for text in unpack_archive(lambda: iter([packed]), "log")[1]()]
    assert sum(pieces) == 100_000_000
    assert max(pieces) <= 512 // 4 * (128 << 10) + (1 << 20)


@pytest.mark.parametrize(
    "text",
    [
        b'{"textPayload": "x"}\n' + b"[" * 200_000,
        b'{"textPayload": ' + b'{"a":' * 100_000,
        b'{"textPayload": "x", "n": ' + b"9" * 100_000 + b"}\n",
        b"PK\x03\x04" + bytes(1000),
    ],
)
def test_exports_nested_or_numbered_without_end(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_bytes(text)
    with pytest.raises(LogFormatError):
        scrape(path)


def test_a_line_of_many_megabytes(write_log: Callable[..., Path], tmp_path: Path) -> None:
    """The page shows its ends; the steps around it are all read."""
    long = b"<b>x</b>" * 2_000_000 + b"\n"  # 16 MB
    pair = read_pair([write_log("a.txt", extra=long), write_log("b.txt")])
    for run in (pair.baseline[0].reading, pair.candidate[0].reading):
        assert run.steps["step"].to_list() == list(range(10))
        # a field with markup as its name is ignored, and reported
        assert [line.text[:18] for line in run.coverage.unread] == ["completed step: 10"]
    store = open_store(tmp_path / "out")
    page = publish_comparison(compare_pair(archive(pair, store), case="logs", aa=False), store)
    assert page.stat().st_size < 1_000_000
    assert "characters left out" in page.read_text()
