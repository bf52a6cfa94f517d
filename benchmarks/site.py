"""Times building a site, and opening and searching its pages in headless Chromium (which must be on PATH).

Most times are measured inside the page, up to the frame that shows the result, because the automation has delays. A
page of one word is opened for comparison: its time is the least that the browser needs for any page.

python -m benchmarks.site [--comparisons 2000] [--megabytes 100] [--only build|open|search]
"""

import argparse
import random
import re
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

from benchmarks.machine import describe_machine
from tasks.diff.compare_logs import archive, compare_pair
from tasks.ingest.example_logs import ExamplePair, example_pairs
from tasks.ingest.given_logs import LoggedArms, read_pair
from tasks.publish.site.comparison_pages import build_site, publish_comparison
from tasks.publish.site.index import PAGE
from tasks.records.compared_case import ComparisonRecord
from tasks.store.store import Store, open_store

STEP = "I0418 18:10:00.{:06d} 135278194456384 metric_logger.py:196] completed step: {}, seconds: {:.3f}, TFLOP/s/device: {:.3f}, Tokens/s/device: {:.3f}, total_weights: 65536, loss: {:.3f}\n"  # noqa: E501
NOISE = "I0418 18:10:00.{:06d} 135278194456384 checkpointing.py:{}] waiting for {} of the arrays that the step before has written: nothing to do yet\n"  # noqa: E501
NEEDLE = "Needle in the haystack"
VISITS = 5
WORD = "<!doctype html><html data-ready=yes><title>word</title>word"
# stores the ms from the request to the first frame after parsing and all scripts
WATCH = "addEventListener('DOMContentLoaded', () => requestAnimationFrame(() => setTimeout(() => { window.shown = performance.now(); })))"  # noqa: E501
# types a word, and returns the ms up to the frame that shows the first line with the word
TYPE = """(word) => new Promise((done) => {
    const find = document.getElementById("find"), began = performance.now();
    const shown = () => requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
    const look = () => { if (document.querySelector(".hits a")) shown(); else setTimeout(look, 5); };
    find.value = word;
    find.dispatchEvent(new Event("input"));
    look();
})"""


def made_up_log(path: Path, steps: int, size: int, seed: int) -> None:
    """Write a log with this number of steps and about this many bytes, with NEEDLE in its last lines."""
    draw = random.Random(seed)
    fill = max(0, size // steps - 200) // len(NOISE)
    with path.open("w") as file:
        file.write("System Information: Jax Version: 0.9.2\n")
        for step in range(steps):
            seconds = 0.08 * (1 + 0.006 * draw.gauss(0, 1)) + (9 if step == 0 else 0)
            loss = 4 + 7 * 0.9995**step + draw.gauss(0, 0.02)
            file.write(STEP.format(step % 10**6, step, seconds, 1 / seconds, 160 / seconds, loss))
            for _ in range(fill):
                file.write(NOISE.format(draw.randrange(10**6), draw.randrange(900), draw.randrange(10**6)))
        file.write(f"I0418 18:20:00.000000 135278194456384 train.py:1] {NEEDLE}\nEXIT_CODE=0\n")


def publish_logs(folder: Path, steps: int, size: int) -> Path:
    """Compare two made-up logs; return the path of the comparison's page."""
    store = open_store(folder / "out")
    files = [folder / f"{side}.txt" for side in ("baseline", "candidate")]
    for seed, file in enumerate(files):
        made_up_log(file, steps, size, seed)
    record = compare_pair(archive(read_pair(files), store), case="01_base", aa=False)
    return publish_comparison(record, store)


def compare_example(pair: ExamplePair, folder: Path, store: Store) -> ComparisonRecord:
    files = [folder / "a.txt", folder / "b.txt"]
    for file, (text, *_) in zip(files, pair.logs, strict=True):
        file.write_text(text)
    read = read_pair(files)
    arms = LoggedArms(names=pair.names, baseline=read.baseline, candidate=read.candidate)
    record = compare_pair(archive(arms, store), case=pair.case, aa=False, target="example")
    return record.replace(comparison=pair.comparison, created=pair.created.isoformat())


def build(folder: Path, count: int) -> None:
    """Build a site of many comparisons, add one more, and open the index."""
    store = open_store(folder / "out")
    known = [(pair, compare_example(pair, folder, store)) for pair in example_pairs()]

    def put(number: int) -> ComparisonRecord:
        pair, record = known[number % len(known)]
        created = (pair.created + timedelta(days=7 * (number // len(known)))).isoformat()
        record = record.replace(id=f"{number:010x}", created=created)
        store.comparison(record.comparison, record.case, record.id).write_comparison(record)
        return record

    for number in range(count):
        put(number)
    with clock(f"build {count} comparisons"):
        built = build_site(store)
    assert built.written == count, built
    put(count)
    with clock("build one more"):
        built = build_site(store)
    assert built.written == 1, built
    with clock("publish one more"):
        publish_comparison(put(count + 1), store)
    front = store.path / PAGE
    print(f"front: {front.stat().st_size / 1000:.0f} kB")
    for visit in ("cold", "warm"):
        with browse() as page:
            if visit == "warm":
                page.goto("about:blank")
            print(f"front usable, {visit}: {until_ready(page, front):.2f} s")
            if visit == "warm":
                page.fill("[name=find]", "04_int8")
                began = time.perf_counter()
                expect(page.locator("#count")).not_to_have_text(re.compile(r"^([\d,]+) of \1$"), timeout=180_000)
                print(f"front filtered: {time.perf_counter() - began:.2f} s")


def open_page(folder: Path) -> None:
    """Time opening the page of two runs of 10,000 steps, and drawing its curves."""
    address = publish_logs(folder, steps=10_000, size=5_000_000)
    word = folder / "word.html"
    word.write_text(WORD)
    for visit in ("cold", "warm"):
        seconds: dict[Path, list[float]] = {address: [], word: []}
        curves: list[float] = []
        for _ in range(VISITS):
            for path, found in seconds.items():
                with browse() as page:
                    asked: list[Path] = []
                    page.on("request", lambda request, asked=asked: asked.append(file_of(request.url)))  # type: ignore[call-overload]  # a default binds the visit
                    if visit == "warm":
                        page.goto("about:blank")
                    found.append(until_ready(page, path))
                    if path == word:
                        continue
                    first = sum(file.stat().st_size for file in asked)
                    began = time.perf_counter()
                    page.locator("#curves").scroll_into_view_if_needed()
                    page.wait_for_selector("#plot[data-drawn] svg")
                    curves.append(time.perf_counter() - began)
                    whole = sum(file.stat().st_size for file in set(asked))
        print(f"2 × 10,000 steps, readable table, {visit}: {show(seconds[address])}; one word: {show(seconds[word])}")
        print(f"  bytes before anything is opened: {first / 1000:.0f} kB, with curves {whole / 1000:.0f} kB")
        print(f"  curves: {show(curves)}")


def file_of(url: str) -> Path:
    return Path(url.removeprefix("file://"))


def show(seconds: list[float]) -> str:
    """Return the median and the range as text."""
    return f"{median(seconds):.2f} s ({min(seconds):.2f} … {max(seconds):.2f})"


def search(folder: Path, megabytes: int) -> None:
    """Search two long logs for a word in the last lines, a word near the beginning and a word in every step."""
    with clock(f"publish 2 × {megabytes} MB"):
        address = publish_logs(folder, steps=20_000, size=megabytes * 1_000_000)
    for word, place in (
        (NEEDLE, "at the ends"),
        ("completed step: 77,", "near the beginnings"),
        ("seconds:", "in every step"),
    ):
        with browse() as page:
            until_ready(page, address)
            began = time.perf_counter()
            first = page.evaluate(TYPE, word) / 1000
            expect(page.locator("#count")).to_have_text(re.compile(r"[\d,]+ of [\d,]+ lines.*"), timeout=180_000)
            found = page.locator("#count").inner_text()
            print(f"'{word}' {place}: first {first:.2f} s, all {time.perf_counter() - began:.2f} s: {found}")


@contextmanager
def browse() -> Iterator[Page]:
    """Yield an empty page in a new browser."""
    path = next(found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name)))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"], timeout=180_000)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(180_000)
        yield page
        browser.close()


def until_ready(page: Page, path: Path) -> float:
    """Open a page; return the seconds from the request until the page is readable and usable."""
    page.add_init_script(WATCH)
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    return float(page.wait_for_function("window.shown").json_value()) / 1000


@contextmanager
def clock(what: str) -> Iterator[Any]:
    """Print the block's seconds and CPU seconds."""
    began, cpu = time.perf_counter(), cpu_seconds()
    yield
    print(f"{what}: {time.perf_counter() - began:.2f} s, {cpu_seconds() - cpu:.2f} CPU-s")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=2000)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--only", choices=("build", "open", "search"))
    options = parser.parse_args()
    print(describe_machine(("playwright", "polars", "jinja2")))
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / part for part in ("build", "open", "search")]
        for folder in folders:
            folder.mkdir()
        if options.only in (None, "build"):
            build(folders[0], options.comparisons)
        if options.only in (None, "open"):
            open_page(folders[1])
        if options.only in (None, "search"):
            search(folders[2], options.megabytes)


if __name__ == "__main__":
    main()
