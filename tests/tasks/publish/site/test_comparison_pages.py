"""A site is built from records alone, and current pages are not rewritten."""

from pathlib import Path

import pytest

from tasks.publish.content.page_address import find_page
from tasks.publish.page.write_page import write_page
from tasks.publish.site.comparison_pages import build_site, publish_comparison
from tasks.publish.site.index import PAGE, index_comparison, parse_index
from tasks.publish.site.index_files import pair_file
from tasks.records.compared_case import ComparisonRecord
from tasks.store.store import Store, open_store


def put(store: Store, record: ComparisonRecord) -> Path:
    directory = store.comparison(record.comparison, record.case, record.id)
    directory.write_comparison(record)
    return directory.page


def without_logs(record: ComparisonRecord, **changes: str) -> ComparisonRecord:
    gone = {"spans": ((0, 0),)}
    arms = {side: getattr(record, side).replace(**gone) for side in ("baseline", "candidate")}
    return record.replace(**{"curves": ()} | arms | changes)


def test_only_missing_or_stale_pages_are_written(tmp_path: Path, record_002: ComparisonRecord) -> None:
    store = open_store(tmp_path / "out")
    records = [without_logs(record_002, id=id, created=f"2026-11-2{id}T03:00:00+00:00") for id in ("1", "2", "3")]
    pages = [put(store, record) for record in records]
    built = build_site(store)
    assert (built.written, built.kept) == (3, 0)
    before = [page.stat().st_mtime_ns for page in pages]
    assert (build_site(store).written, build_site(store).kept) == (0, 3)
    assert [page.stat().st_mtime_ns for page in pages] == before
    put(store, records[1].replace(conclusion=records[1].conclusion.replace(blocked="said otherwise")))
    reported: list[str] = []
    assert build_site(store, tell=reported.append).written == len(reported) == 1
    assert "said otherwise" in pages[1].read_text()
    pages[0].unlink()
    assert build_site(store).written == 1
    index = parse_index((store.path / PAGE).read_text())
    assert index is not None
    assert [(item.id, item.headline.endswith("said otherwise")) for item in index.comparisons] == [
        ("3", False), ("2", True), ("1", False)
    ]  # fmt: skip
    cases = pair_file(index_comparison(record_002).pair)
    assert f'"{records[2].id}"' in (store.path / "comparisons" / record_002.comparison / cases).read_text()


def test_unchanged_pages_are_not_written_again(tmp_path: Path, record_002: ComparisonRecord) -> None:
    lines = {record_002.baseline.name: [(0, "one line")]}
    page = write_page(record_002, tmp_path, log_lines=lines)
    files = [*(tmp_path / "curves").iterdir(), tmp_path / "logs/baseline-1.js"]
    before = [file.stat().st_ino for file in files]
    own = page.stat().st_ino
    write_page(record_002.replace(headline="said otherwise"), tmp_path, log_lines=lines)
    assert [file.stat().st_ino for file in files] == before
    assert page.stat().st_ino != own


def test_an_unreadable_record_is_reported_and_stops_nothing(tmp_path: Path, record_002: ComparisonRecord) -> None:
    store = open_store(tmp_path / "out")
    put(store, without_logs(record_002))
    broken = store.path / "comparisons/x/y/z/comparison.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    built = build_site(store)
    assert (built.written, len(built.unread)) == (1, 1)
    assert str(broken) in built.unread[0]


def test_a_page_links_to_the_address_of_the_served_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path / "out")
    page = store.path / "comparisons/x/01 base/1/index.html"
    assert find_page(page, store).link == page.as_uri()
    assert find_page(page, store).shown == str(page)
    monkeypatch.setenv("MAXVIEW_SITE", "http://host:8000/maxview/")
    assert find_page(page, store).link == "http://host:8000/maxview/comparisons/x/01%20base/1/index.html"
    assert find_page(page, store).shown == find_page(page, store).link
    monkeypatch.setenv("MAXVIEW_SITE", "javascript:alert(1)")
    with pytest.raises(ValueError, match="MAXVIEW_SITE"):
        find_page(page, store)


def test_a_page_links_to_its_flow_run(tmp_path: Path, record_002: ComparisonRecord) -> None:
    store = open_store(tmp_path / "out")
    address = "http://127.0.0.1:4200/runs/flow-run/abc"
    page = publish_comparison(without_logs(record_002), store, flow_run=address)
    assert f'<a href="{address}">this flow run</a>' in page.read_text()
    page.unlink()
    build_site(store)
    assert f'<a href="{address}">this flow run</a>' in page.read_text()
    publish_comparison(without_logs(record_002), store, flow_run="javascript:alert(1)")
    assert "javascript:" not in page.read_text()
