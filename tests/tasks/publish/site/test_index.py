"""The index of a store: the newest comparisons, the last nights, the history, and concurrent writers."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import requests

from questions.history.page import write_history_page
from tasks.diff.compare_logs import archive, compare_pair
from tasks.diff.judge.compare_nights import find_changes
from tasks.ingest.given_logs import read_pair
from tasks.publish.site.comparison_pages import publish_comparison
from tasks.publish.site.index import (
    HISTORY,
    MAX_PAIRS,
    NIGHTS,
    OPEN,
    PAGE,
    SEGMENT,
    TOLD_NIGHTS,
    IndexedCell,
    IndexedComparison,
    IndexedNight,
    StoreIndex,
    index_comparison,
    index_results,
    parse_index,
)
from tasks.publish.site.index_files import read_results
from tasks.publish.site.index_page import (
    MAX_HEAT_ROWS,
    add_comparison,
    add_history,
    add_nights,
    add_results,
    find_states,
    rebuild_index,
    render_index,
    tally,
    update_index,
)
from tasks.records.compared_case import ComparisonRecord
from tasks.records.night import CellResult, NightCell, NightChange, NightPlan, NightRecord
from tasks.store.atomic import StoreError
from tasks.store.store import Store, open_store
from tests.example.example_logs import example_pairs
from tests.wording.sentences import Wording

WRITERS, EACH = 4, 3
STEP = "completed step: {}, seconds: {}, TFLOP/s/device: 1.000, Tokens/s/device: 9.000, total_weights: 64, loss: {}\n"


@pytest.fixture(params=["local", "gs"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store of each kind."""
    if request.param == "local":
        return open_store(tmp_path / "out")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return open_store(request.getfixturevalue("gcs_url"))


def shown(store: Store) -> StoreIndex:
    index = parse_index(store.files.read(PAGE).decode())
    assert index is not None
    return index


def compared(record: ComparisonRecord, **changes: Any) -> ComparisonRecord:
    return record.replace(**{"created": "2026-11-21T03:00:00+00:00"} | changes)


def night(day: int, *outcomes: str, page: str = "") -> NightRecord:
    cells = [NightCell(comparison="linen-vs-nnx", case=f"{n:02}_case") for n in range(len(outcomes))]
    results = [
        CellResult(cell=cell, outcome=outcome, headline="h", page=page)  # type: ignore[arg-type]
        for cell, outcome in zip(cells, outcomes, strict=True)
    ]
    plan = NightPlan(
        id=f"2026-11-{day:02}", created=f"2026-11-{day:02}T03:00:00+00:00", target="cpu", slices=1, request="x",
        cells=tuple(cells),
    )  # fmt: skip
    return NightRecord(plan=plan, results=tuple(results), ended=f"2026-11-{day:02}T04:00:00+00:00")


def test_no_comparison_is_ever_dropped(store: Store, record_002: ComparisonRecord) -> None:
    for id, created in (("b", "2026-11-20T03:00:00+00:00"), ("c", "2026-11-21T03:00:00+00:00"), ("a", "2026-11-19T03")):
        update_index(store, add_comparison(compared(record_002, id=id, created=created)))
    update_index(store, add_comparison(compared(record_002, id="x", case="16_f32_exact", verdict="same")))
    update_index(store, add_comparison(compared(record_002, id="y", target="~ another", created="2026-11-18T03")))
    update_index(store, add_comparison(compared(record_002, id="b", created="2026-11-20T03:00:00+00:00")))  # again
    index = shown(store)
    assert [item.id for item in index.comparisons] == ["x", "c", "b", "a", "y"]  # by time, then name
    page = store.files.read(PAGE).decode()
    for item in index.comparisons:
        assert f'href="{store.link_from_page(item.page)}"' in page
    assert record_002.headline in page


def test_each_pair_of_refs_has_rows_with_its_newest_verdicts(store: Store, record_002: ComparisonRecord) -> None:
    def of_branch(ref: str, id: str, verdict: str) -> ComparisonRecord:
        candidate = record_002.candidate.replace(label=f"{ref} · 574ad3fb9")
        return compared(record_002, id=id, verdict=verdict, candidate=candidate, created=f"2026-11-2{id}T03")

    for ref, id, verdict in (("feat/a", "1", "regressed"), ("feat/b", "2", "same"), ("feat/a", "3", "same")):
        update_index(store, add_comparison(of_branch(ref, id, verdict)))
    page = store.files.read(PAGE).decode()
    matrix = page[page.index('<section id="matrix"') : page.index('<section id="compared"')]
    assert re.findall(r"<bdi>(main → .*?)</bdi>", matrix) == ["main → feat/a", "main → feat/b"]
    assert re.findall(r"/([123])/index.html", matrix) == ["3", "2"]


def test_the_last_nights_are_a_heat_map(store: Store) -> None:
    for day in (3, 1, 2):
        update_index(store, add_nights([night(day, "same", "failed")]))
    place = "/anywhere/out/comparisons/linen-vs-nnx/00_case/abc/index.html"
    update_index(store, add_nights([night(4, "regressed", page=place)]))
    assert [found.id for found in shown(store).nights] == [f"2026-11-{day:02}" for day in (4, 3, 2, 1)]
    assert shown(store).nights[0].cells[0].page == place.removeprefix("/anywhere/out/")
    page = store.files.read(PAGE).decode()
    heat = re.sub(r"<[^>]*>", " ", page[page.index('<table class="heat"') :].split("</table>")[0]).split()
    assert " ".join(heat) == (
        "cpu 11-04 11-03 11-02 11-01 00_case linen-vs-nnx ✗ regressed = same = same = same"
        " 01_case linen-vs-nnx ✗ failed ✗ failed ✗ failed"
    )
    update_index(store, add_nights([night(day, "same") for day in range(5, 20)]))
    last = shown(store).nights
    assert [found.id for found in last] == [f"2026-11-{day:02}" for day in range(19, 19 - NIGHTS, -1)]
    assert [found.cells[0].headline for found in last] == ["h"] * TOLD_NIGHTS + [""] * (NIGHTS - TOLD_NIGHTS)


def test_a_heat_map_of_many_cases_has_those_that_differed(store: Store) -> None:
    for day in (1, 2):
        update_index(store, add_nights([night(day, *["same"] * MAX_HEAT_ROWS, "regressed" if day == 1 else "same")]))
    page = store.files.read(PAGE).decode()
    heat = page[page.index('<table class="heat"') :].partition("</section>")[0]
    assert re.findall(r"<bdi>(\d+_case)</bdi>", heat) == [f"{MAX_HEAT_ROWS}_case"]
    assert f"{MAX_HEAT_ROWS} more were the same" in heat
    assert len(shown(store).nights[0].cells) == MAX_HEAT_ROWS + 1  # the index has all


def test_concurrent_writers_keep_each_others_entries(store: Store, record_002: ComparisonRecord) -> None:
    def write(writer: int) -> None:
        own = open_store(store.address)  # a separate client
        for number in range(EACH):
            update_index(own, add_comparison(compared(record_002, case=f"{writer}-{number}")))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    cases = {item.case for item in shown(store).comparisons}
    assert cases == {f"{writer}-{number}" for writer in range(WRITERS) for number in range(EACH)}


def test_the_index_is_rebuilt_from_the_folders(store: Store, record_002: ComparisonRecord) -> None:
    for id, day in (("a", 19), ("b", 21), ("c", 20)):
        record = compared(record_002, id=id, created=f"2026-11-{day}T03:00:00+00:00")
        name = f"comparisons/{record.comparison}/{record.case}/{id}/comparison.json"
        store.files.write(name, record.model_dump_json().encode())
    store.files.write("comparisons/x/y/z/comparison.json", b"{")
    store.files.write(HISTORY, b"")
    done = night(3, "same")
    store.files.write("nightly/2026-11-03/record.json", done.model_dump_json().encode())
    update_index(store, lambda index, _: index)
    before = shown(store)
    assert [item.id for item in before.comparisons] == ["b", "c", "a"]
    assert before.history
    assert [found.id for found in before.nights] == ["2026-11-03"]
    assert before.unread == ("comparisons/x/y/z/comparison.json",)
    page = store.files.read(PAGE).decode()
    damages: list[Callable[[], object]] = [
        lambda: store.files.delete(PAGE),
        lambda: store.files.write(PAGE, page[: len(page) // 2].encode()),
        lambda: store.files.write(
            PAGE, page.replace('"comparisons":', '"entries":').encode()
        ),  # another version's index
    ]
    for damage in damages:
        damage()
        update_index(store, add_history)
        assert shown(store) == before
    update_index(store, add_comparison(compared(record_002, case="of no folder")))
    rebuild_index(store)
    assert store.files.read(PAGE).decode() == page


def test_the_index_of_two_thousand_comparisons_is_small(tmp_path: Path, record_002: ComparisonRecord) -> None:
    """Branches of 37 letters, 16 cases, and headlines of 80."""
    one = index_comparison(compared(record_002))
    every = tuple(
        one.replace(case=f"{n % 16:02}_gradient_accum", id=f"{n:010x}", headline="h" * 80) for n in range(2000)
    )
    store = open_store(tmp_path / "out")
    page = render_index(index_results(every), store)
    assert len(page.encode()) < 500_000
    assert parse_index(page) == index_results(every)


def numbered(record: ComparisonRecord, numbers: range) -> list[IndexedComparison]:
    """Results of two cases, an hour apart; every fourth regressed."""
    one = index_comparison(compared(record))
    return [
        one.replace(
            case=f"{n % 2:02}_case",
            id=f"{n:010x}",
            created=(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n)).isoformat(),
            verdict="same" if n % 4 else "regressed",
        )
        for n in numbers
    ]


def test_older_results_are_in_segments_that_are_written_once(store: Store, record_002: ComparisonRecord) -> None:
    many = SEGMENT + OPEN
    update_index(store, add_results(numbered(record_002, range(many)), {}))
    before = shown(store)
    (segment,) = before.segments
    assert (segment.size, len(before.comparisons), before.total) == (SEGMENT, OPEN, many)
    version = store.files.read_version(segment.name)
    for item in numbered(record_002, range(many, many + 3)):
        update_index(store, add_results([item], {}))
    assert shown(store).segments == before.segments
    assert store.files.read_version(segment.name) == version
    expected = numbered(record_002, range(many + 3))
    assert {item.key: item for item in read_results(store)} == {item.key: item for item in expected}
    assert shown(store).counts == {"same": 3 * (many + 4) // 4 - 1, "regressed": (many + 4) // 4}


def test_a_result_that_is_published_again_is_counted_once(store: Store, record_002: ComparisonRecord) -> None:
    found = numbered(record_002, range(SEGMENT + OPEN))
    update_index(store, add_results(found, {}))
    (first,) = shown(store).segments
    old, young = found[8], found[-1]  # in the segment; in the index
    assert old.verdict == "regressed"
    again = old.replace(verdict="same", created="2026-11-22T03:00:00+00:00")
    update_index(store, add_results([again], {old.key: old.created}))
    update_index(store, add_results([young.replace(verdict="improved")], {}))
    index, results = shown(store), read_results(store)
    assert index.total == len(results) == len({item.key for item in results}) == len(found)
    assert index.counts == {word: sum(item.outcome == word for item in results) for word in index.counts}
    assert index.counts["improved"] == 1
    assert index.comparisons[0] == again
    assert store.files.stat(first.name) is None  # replaced by a segment without the result
    assert [item for item in index.matrix if item.case == again.case] == [again]


def test_an_older_pair_comes_back_with_all_its_cases(store: Store, record_002: ComparisonRecord) -> None:
    def of(branch: int, case: str, day: int) -> IndexedComparison:
        item = index_comparison(compared(record_002, case=case, id=f"{branch:x}{day:x}{case}"))
        return item.replace(candidate=f"b{branch}", created=f"2026-11-{day:02}T03:00:00+00:00")

    update_index(store, add_results([of(0, "a", 1), of(0, "b", 1)], {}))
    update_index(store, add_results([of(branch, "a", 2) for branch in range(1, MAX_PAIRS + 1)], {}))
    assert "b0" not in {item.candidate for item in shown(store).matrix}
    update_index(store, add_results([of(0, "a", 3)], {}))
    assert shown(store).pairs[0].candidate == "b0"
    items = [item for item in shown(store).matrix if item.candidate == "b0"]
    assert [(item.case, item.created[8:10]) for item in items] == [("a", "03"), ("b", "01")]


def test_a_missing_segment_is_reported_with_its_remedy(
    store: Store, record_002: ComparisonRecord, wording: Wording
) -> None:
    update_index(store, add_results(numbered(record_002, range(SEGMENT + OPEN)), {}))
    (segment,) = shown(store).segments
    store.files.delete(segment.name)
    with pytest.raises(StoreError, match=rf"{segment.name}: .*maxview history --rebuild") as error:
        read_results(store)
    wording("errors", error.value, SEGMENT=segment.name)


def test_a_change_links_to_its_page_and_names_its_owner(tmp_path: Path, wording: Wording) -> None:
    store = open_store(tmp_path / "out")
    done = night(4, "regressed", page=str(store.path / "comparisons/linen-vs-nnx/00_case/a/index.html"))
    (result,) = done.results
    cell = result.cell.replace(owner="a team")
    owned = result.replace(cell=cell, died=True)
    changes = (*find_changes((), [owned]), NightChange(kind="twins", comparison="a-vs-b", text="told otherwise"))
    update_index(store, add_nights([done.replace(results=(owned,), changes=changes)]))
    page = (store.path / PAGE).read_text()
    reported = re.search(r'<ul class="changes">(.*?)</ul>', page, re.DOTALL)
    assert reported
    (first,) = re.findall(r"<li>(.*?)</li>", reported[1], re.DOTALL)
    assert 'href="comparisons/linen-vs-nnx/00_case/a/index.html"' in first
    shown = " ".join(re.sub(r"<.*?>", " ", first).split())
    assert shown.startswith("† died 00_case linen-vs-nnx ")
    assert shown.endswith("; a team")
    wording("parts", shown)
    assert "<li>a-vs-b: twins: told otherwise</li>" in page  # a change without a case
    assert (
        "regressed" not in page[page.index('<section id="nights"') :].split("</section>")[0]
    )  # one word for all verdicts


def test_a_foreign_page_is_not_replaced(store: Store, caplog: pytest.LogCaptureFixture, wording: Wording) -> None:
    store.files.write(PAGE, b"<h1>my home</h1>")
    update_index(store, add_history)
    assert store.files.read(PAGE) == b"<h1>my home</h1>"
    (message,) = caplog.messages
    assert "index.html" in message
    wording("errors", message)


def test_a_page_that_others_keep_changing_is_an_error(
    tmp_path: Path,
    gcs_url: str,
    monkeypatch: pytest.MonkeyPatch,
    wording: Wording,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("tasks.publish.site.index_files.PAUSE_S", 0.0)
    monkeypatch.setattr("tasks.publish.site.index_files.ATTEMPTS", 3)
    store = open_store(gcs_url)

    def disturbed(index: StoreIndex, store: Store) -> StoreIndex:
        store.files.write(PAGE, store.files.read(PAGE) + b" ")
        return index

    update_index(store, add_history)
    with pytest.raises(StoreError, match=r"index\.html: ") as error:
        update_index(store, disturbed)
    wording("errors", error.value, STORE=gcs_url)


def test_external_text_stays_text(store: Store, hostile_record: ComparisonRecord) -> None:
    update_index(store, add_comparison(compared(hostile_record, comparison="x")))  # others are refused
    page = store.files.read(PAGE).decode()
    assert page.count("<script") == 2  # the data, and ours
    assert shown(store).comparisons[0].target == hostile_record.target
    # well-formed except for tags that HTML leaves open: external text is only in texts and attributes
    body = page[page.index("<main>") : page.index("</main>") + len("</main>")]
    assert ElementTree.fromstring(body.replace(" open>", ">").replace("&nbsp;", " ")).tag == "main"


def test_every_publication_updates_it(tmp_path: Path) -> None:
    store = open_store(tmp_path / "out")
    logs = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for log in logs:
        log.write_text("".join(STEP.format(step, 1.0, 3.0 - step / 4) for step in range(4)))
    record = compare_pair(archive(read_pair(logs), store), case="logs", aa=True)
    page = publish_comparison(record, store)
    (item,) = shown(store).comparisons
    assert store.path / item.page == page
    assert (item.verdict, item.target, item.created) == (record.verdict, "as logged", record.created)
    home = (page.parent / "../../../../index.html").resolve()
    assert home == store.path / PAGE
    assert 'href="../../../../index.html"' in page.read_text()
    write_history_page([], store)
    assert shown(store).history
    assert 'href="index.html"' in (store.path / HISTORY).read_text()


def test_one_more_comparison_is_few_requests_to_a_bucket(
    gcs_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store, logs = open_store(gcs_url), [tmp_path / "a.txt", tmp_path / "b.txt"]
    example = next(iter(example_pairs()))
    for log, (text, *_) in zip(logs, example.logs, strict=True):
        log.write_text(text)
    pair = archive(read_pair(logs), store)
    first = compare_pair(pair, case="logs", aa=True)
    publish_comparison(first, store, pair)
    asked: list[str] = []
    request = requests.Session.request

    def count(session: requests.Session, method: str, url: str, **options: Any) -> requests.Response:
        asked.append(f"{method} {url}")
        return request(session, method, url, **options)

    monkeypatch.setattr(requests.Session, "request", count)
    # record, page, two logs in two forms, curves, history: 8 uploads; index and pair are read and written
    publish_comparison(first.replace(id="0000000002"), store, pair)
    assert len(asked) == 12, asked
    # another machine replaces a comparison: it finds the record there, and the index counts it once
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    other = first.replace(headline="said otherwise", conclusion=first.conclusion.replace(blocked="said otherwise"))
    publish_comparison(other, open_store(gcs_url))
    index = parse_index(store.files.read(PAGE).decode())
    assert index is not None
    assert {item.id: item.headline.endswith("said otherwise") for item in index.comparisons} == {
        "0000000002": False, first.id: True
    }  # fmt: skip
    assert index.total == 2
    directory = store.comparison(first.comparison, first.case, first.id)
    found = directory.read_comparison()
    assert found is not None
    assert found.headline == "said otherwise"


def test_the_index_separates_new_from_known_failures_missing_and_fixed_ones() -> None:
    def night(day: int, **words: str) -> IndexedNight:
        cells = tuple(IndexedCell(comparison="c", case=case, outcome=word) for case, word in words.items())  # type: ignore[arg-type]
        return IndexedNight(id=str(day), target="cpu", ended=f"2026-11-{day}", headline="", cells=cells)

    before = night(1, a="same", b="regressed", c="died", d="same", e="same")
    elsewhere = night(2, a="regressed").replace(target="v6e-32")  # another target: not the night before
    now = night(3, a="regressed", b="regressed", c="same", d="failed")
    found = {name: [cell.case for cell in cells] for name, cells in find_states([now, elsewhere, before]).items()}
    assert found == {
        "new": ["d", "a"],
        "old": ["b"],
        "absent": ["e"],
        "healed": ["c"],
        "unknown": [],
        "quarantined": [],
    }
    undecided = night(3, b="unknown", c="unknown")
    found = {name: [cell.case for cell in cells] for name, cells in find_states([undecided, before]).items()}
    assert (found["healed"], found["unknown"]) == ([], ["b", "c"])
    sound = undecided.cells[0].replace(outcome="same", quarantine="known")
    states = find_states([undecided.replace(cells=(sound,)), before])
    assert (states["healed"], states["quarantined"]) == ([], [sound])
    quiet = now.cells[0].replace(quarantine="known")
    states = find_states([now.replace(cells=(quiet,))])
    assert (states["new"], states["quarantined"]) == ([], [quiet])


def test_the_bar_of_a_night_shows_the_share_of_each_verdict() -> None:
    cells = [
        IndexedCell(comparison="c", case=str(n), outcome=w) for n, w in enumerate(("same", "died", "same", "same"))
    ]  # type: ignore[arg-type]
    assert tally(cells) == [("died", 1, 0.0, 25.0), ("same", 3, 25.0, 75.0)]
