"""Times publishing one more comparison into stores of many, and opening their front page in headless Chromium.

The stores have an index of made-up results of 16 cases and two pairs a night, without pages. On a bucket of the tests'
stand-in, the figure is the number of requests.

python -m benchmarks.site_scale [--comparisons 300 10000 100000]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from urllib.request import urlopen

from playwright.sync_api import expect

from benchmarks.machine import describe_machine
from benchmarks.site import browse, compare_example, until_ready
from tasks.ingest.example_logs import example_pairs
from tasks.publish.site.comparison_pages import publish_comparison, read_runs_by_name
from tasks.publish.site.index import PAGE, index_comparison
from tasks.publish.site.index_page import add_results, update_index
from tasks.records.compared_case import ComparisonRecord
from tasks.records.run import RunRecord
from tasks.store.store import Store, open_store

SERVER = Path(__file__).parents[1] / "tests/standins/gcs.py"
CASES, PAIRS, BRANCHES = 16, 2, 40  # per night; every eighth night's second pair is of another branch
MORE = 5  # comparisons that are published one by one


def fill(store: Store, folder: Path, count: int) -> tuple[ComparisonRecord, list[RunRecord]]:
    """Add results to the index of a store; return the record of one more comparison, and its runs in the store."""
    record = compare_example(next(iter(example_pairs())), folder, store)
    runs = list(read_runs_by_name(record, store).values())
    one, results = index_comparison(record), []
    for number in range(count):
        night, cell = divmod(number, CASES * PAIRS)
        pair, case = divmod(cell, CASES)
        branch = f"feature/{night // 8 % BRANCHES}" if pair and night % 8 == 0 else "branch"
        changes = {
            "id": f"{number:010x}",
            "case": f"{case:02d}_gradient_accum",
            "comparison": ("linen-vs-nnx", "main-vs-branch")[pair],
            "candidate": branch,
            "created": (datetime(2016, 1, 1, tzinfo=UTC) + timedelta(days=night, minutes=cell)).isoformat(),
            "verdict": ("same", "same", "same", "unknown", "regressed", "improved", "changed")[number % 7],
            "headline": "no difference in 14 metrics; 3 are not judged, because one run of each is too few",
        }
        results.append(one.replace(**changes))
    update_index(store, add_results(results, {}))
    return record.replace(created=datetime.now(UTC).isoformat()), runs


def publish_more(record: ComparisonRecord, runs: list[RunRecord], store: Store) -> list[float]:
    """Publish MORE comparisons of the runs, as a flow that has them in memory; return the seconds of each."""
    seconds = []
    for number in range(MORE):
        began = time.perf_counter()
        publish_comparison(record.replace(id=f"f{number:09x}"), store, runs)
        seconds.append(time.perf_counter() - began)
    return seconds


def measure_folder(folder: Path, count: int) -> None:
    store = open_store(folder / "out")
    record, runs = fill(store, folder, count)
    seconds = publish_more(record, runs, store)
    front = store.path / PAGE
    print(f"{count:,} comparisons: one more {median(seconds):.3f} s ({min(seconds):.3f} … {max(seconds):.3f})")
    with browse() as page:
        page.goto("about:blank")
        ready = until_ready(page, front)
        began = time.perf_counter()
        page.fill("[name=find]", "07_gradient")
        expect(page.locator("#count")).to_contain_text("comparisons fit", timeout=60_000)
        expect(page.locator("#count")).not_to_contain_text("to search", timeout=60_000)
        found = page.locator("#count").inner_text()
        print(f"  front: {front.stat().st_size / 1000:.0f} kB, usable after {ready:.2f} s")
        print(f"  found in {time.perf_counter() - began:.2f} s: {found}")


@contextmanager
def serve_bucket() -> Iterator[str]:
    """Yield the address of the stand-in, to which Google's client is redirected."""
    with subprocess.Popen([sys.executable, str(SERVER), "bucket"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        redirect = {"STORAGE_EMULATOR_HOST": address, "NO_GCE_CHECK": "true", "GOOGLE_CLOUD_PROJECT": "p"}
        os.environ |= redirect
        yield address
        server.terminate()


def measure_bucket(folder: Path, count: int) -> None:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    with serve_bucket() as address:
        store = open_store("gs://bucket/out")
        record, runs = fill(store, folder, count)
        before = count_requests(address)
        seconds = publish_more(record, runs, store)
        each = (count_requests(address) - before) / MORE
        print(f"{count:,} comparisons in a bucket: one more {each:g} requests, {median(seconds):.3f} s")


def count_requests(address: str) -> int:
    with urlopen(f"{address}/_requests") as answer:
        return sum(number for kind, number in json.load(answer).items() if "_requests" not in kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, nargs="+", default=[300, 10_000, 100_000])
    options = parser.parse_args()
    print(describe_machine(("playwright", "polars", "jinja2")))
    for count in options.comparisons:
        for measure in (measure_folder, measure_bucket):
            with tempfile.TemporaryDirectory() as name:
                measure(Path(name), count)


if __name__ == "__main__":
    main()
