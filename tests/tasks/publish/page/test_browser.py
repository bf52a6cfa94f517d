"""The page in a real browser: charts are drawn, links scroll, no foreign script runs, no request leaves the machine.

Needs the playwright package and a Chromium on the PATH (Debian: `apt-get install chromium`); skipped without.
"""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from questions.history.page import write_history_page
from questions.history.series import Night, Series, judge
from tasks.publish.page.write_page import write_page
from tasks.publish.site.case_lines import AT_FIRST
from tasks.publish.site.index import StoreIndex, index_comparison
from tasks.publish.site.index_files import pair_file
from tasks.publish.site.index_page import (
    add_comparison,
    add_nights,
    add_results,
    publish_night,
    render_index,
    render_not_found,
    update_index,
)
from tasks.records.compared_case import ComparisonRecord
from tasks.records.next_step import NextStep
from tasks.records.night import CellResult, NightCell, NightChange, NightPlan, NightRecord
from tasks.records.plan import Commit
from tasks.services.site_server import make_server
from tasks.store.store import Store

playwright = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
axe = pytest.importorskip("axe_playwright_python.base", reason="axe-core is not installed")
WAIT_MS = 120_000
# elements of the front page that have to be scrolled by themselves, or whose text is cut off
SCROLLED = """[...document.querySelectorAll('main *')].filter((one) =>
  ["auto", "scroll", "hidden"].includes(getComputedStyle(one).overflowX) &&
  one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1).map((one) => one.outerHTML)"""
PHONE = {"width": 390, "has_touch": True, "is_mobile": True}
playwright.expect.set_options(timeout=WAIT_MS)
pytestmark = pytest.mark.long

type Lines = dict[str, list[tuple[int, str]]]
type Visit = Callable[..., Any]


@pytest.fixture
def address(tmp_path: Path, record_002: ComparisonRecord, logs_002: Lines) -> str:
    # its arms cannot be compared, so that it offers no command of its own
    record = record_002.replace(
        next_step=NextStep(kind="train", argv=("maxview", "compare", "linen-vs-nnx", "--case", "03_dropout"))
    )
    return write_page(record, tmp_path, log_lines=logs_002).as_uri()


def cases_of(record: ComparisonRecord) -> str:
    """Where the page of a comparison finds the other cases of its pair."""
    return f"../../{pair_file(index_comparison(record).pair)}"


CURVES = {"loss": "Loss", "step_time_s": "Step time, s"}


def drawn(page: Any, metric: str = "loss") -> Any:
    """The chart, once it is in view and shows the metric; at first it shows the deciding row's metric."""
    page.locator("#curves").scroll_into_view_if_needed()
    if page.locator("#curve option:checked").inner_text() != CURVES[metric]:
        page.select_option("#curve", label=CURVES[metric])
    page.wait_for_selector(f"#plot[data-drawn={metric}] svg")
    return page.locator("#plot svg")


def test_the_curves_are_drawn_and_nothing_leaves_the_machine(visit: Visit, address: str) -> None:
    seen = visit(address)
    assert not [
        asked for asked in seen.requests if "/curves/" in asked or "/logs/" in asked
    ]  # none is loaded before it is needed
    chart = drawn(seen.page)
    # ten steps of two arms, their difference, and ten step times of two arms
    assert chart.locator("circle").count() == 20 + 10 + 20
    assert chart.locator("rect.band").count() == 5 + 5  # four stalls and a checkpoint of each arm
    assert chart.locator(".first-text").text_content() == "first difference: step 4"
    assert seen.foreign() == []
    assert seen.complaints == []


@pytest.mark.parametrize("device", [{"width": 1440}, PHONE])
def test_the_first_screen_has_verdict_certainty_and_next_step(
    visit: Visit, address: str, device: dict[str, Any]
) -> None:
    page = visit(address, **device).page
    for selector in ("#headline", ".sure", ".front .commands"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= 700
    assert page.locator(".front .commands code").count() == 1  # a single command


def test_rows_that_are_the_same_are_opened_on_request(visit: Visit, address: str) -> None:
    page = visit(address, unfolded=False).page
    words = {row.get_attribute("data-verdict") for row in page.locator("tr[data-verdict]:visible").all()}
    assert words
    assert not words & {"same", "not judged"}
    page.click("#calm")
    words = {row.get_attribute("data-verdict") for row in page.locator("tr[data-verdict]:visible").all()}
    assert {"same", "not judged"} <= words


@pytest.mark.parametrize("number", [0, 3, 5])
def test_a_case_over_time_links_to_its_other_nights(
    visit: Visit, tmp_path: Path, record_000: ComparisonRecord, number: int
) -> None:
    """On the first of six nights all is well, on the others the arm is dead."""
    store = Store(tmp_path)
    for night in range(6):
        created = datetime(2026, 11, 10 + night, tzinfo=UTC).isoformat()
        record = record_000.replace(id=f"{night:010x}", created=created)
        if night == 0:
            ends = {side: getattr(record, side) for side in ("baseline", "candidate")}
            alive = {"exit_code": 0, "cause_of_death": None}
            record = record.replace(**{side: arm.replace(**alive) for side, arm in ends.items()})
        update_index(store, add_comparison(record))
        if night == number:
            folder = store.comparison(record.comparison, record.case, record.id).path
            path = write_page(record, folder, log_lines={}, neighbours=cases_of(record), home="../../../../index.html")
    page = visit(path.as_uri()).page
    assert page.locator("#nights .one").count() == 6
    assert page.locator("#nights [aria-current]").get_attribute("title").startswith(f"2026-11-{10 + number}")
    others = {link.get_attribute("href").split("/")[1] for link in page.locator("#nights a.one").all()}
    assert others == {f"{night:010x}" for night in range(6) if night != number}
    if number == 5:
        assert "It has died since 2026-11-11 (5 times)." in page.locator(".death").inner_text()
    for name, place in (("Overview", ""), ("History", "#history"), ("Invariants", "#invariants")):
        assert page.locator(".site a", has_text=name).get_attribute("href") == f"../../../../index.html{place}"


def test_equal_curves_are_labelled_equal(visit: Visit, tmp_path: Path, record_002: ComparisonRecord) -> None:
    loss = next(curve for curve in record_002.curves if curve.metric == "loss")
    same = loss.replace(arm=record_002.candidate.name, run_name=record_002.candidate.runs[0])
    record = record_002.replace(curves=(loss, same), divergence=None)
    page = visit(write_page(record, tmp_path, log_lines={}).as_uri()).page
    assert drawn(page).locator("text", has_text="equal at every step shown").count() == 1


def test_no_foreign_script_runs(
    visit: Visit, tmp_path: Path, hostile_record: ComparisonRecord, hostile_logs: Lines
) -> None:
    seen = visit(write_page(hostile_record, tmp_path, log_lines=hostile_logs).as_uri())
    page, count = seen.page, sum(map(len, hostile_logs.values()))
    drawn(page)
    page.fill("#find", "window.owned")
    playwright.expect(page.locator("#count")).to_have_text(f"{count} of {count} lines")
    page.locator("#log-baseline .lines .line").first.wait_for()
    assert "window.owned=1" in page.locator("#log-baseline .hits a").first.inner_text()
    hover(page, 4)
    assert "window.owned=1" in page.locator("#told").inner_text()
    assert page.evaluate("window.owned") is None
    assert page.locator("main img[src='x'], main script").count() == 0
    assert page.locator("a[href^='javascript'], svg a").count() == 0
    assert (
        page.locator("h1").inner_text().startswith("not comparable: </script><script>window.owned=1</script><img src=x")
    )
    assert seen.foreign() == []
    assert seen.complaints == []


def test_the_policy_blocks_content_from_outside_the_page(visit: Visit, address: str) -> None:
    page = visit(address).page
    outcome = page.evaluate(
        """async () => {
            const stopped = [];
            addEventListener("securitypolicyviolation", (event) => stopped.push(event.effectiveDirective));
            const script = document.createElement("script");
            script.textContent = "window.owned = 5";
            document.body.append(script);
            const image = new Image();
            image.src = "http://127.0.0.1:9/x.png";
            await fetch("http://127.0.0.1:9/").catch(() => {});
            for (let looks = 0; stopped.length < 3 && looks < 1000; looks += 1) {
                await new Promise((done) => setTimeout(done, 100));
            }
            return [window.owned ?? null, stopped.sort()];
        }"""
    )
    assert outcome == [None, ["connect-src", "img-src", "script-src-elem"]]


def test_a_value_links_to_its_line_in_the_log(visit: Visit, address: str, page_002: Any) -> None:
    page = visit(address).page
    assert page.locator("#log-baseline").get_attribute("open") is None
    page.click("#m-final_loss td[data-label=baseline] a")
    line = page.locator("#log-baseline .here")
    playwright.expect(line).to_contain_text("completed step: 9,")
    assert line.get_attribute("id") == f"baseline-L{page_002.line('main', 'completed step: 9,')}"
    assert line.locator(".values").inner_text() == "Final loss, TFLOP/s, Tok/s"
    assert is_in_view(line)


def test_an_address_with_a_line_opens_there(
    visit: Visit, address: str, page_002: Any, record_002: ComparisonRecord
) -> None:
    line = page_002.line(record_002.candidate.name, "completed step: 5,")
    page = visit(f"{address}#candidate-L{line}").page
    assert is_in_view(page.locator(f"#candidate-L{line}.here"))


def test_a_traceback_is_folded_under_its_cause(
    visit: Visit, tmp_path: Path, record_000: ComparisonRecord, logs_000: Lines
) -> None:
    page = visit(write_page(record_000, tmp_path, log_lines=logs_000).as_uri()).page
    page.click("#log-candidate > summary")
    fold = page.locator("#log-candidate .lines details")
    cause = "NotImplementedError: Pure NNX support has not been implemented yet."
    playwright.expect(fold.locator("summary")).to_have_text(f"{cause} (traceback of 3 lines)")
    frame = page.locator("#log-candidate .lines code:has-text('setup_train_loop')")
    assert not frame.is_visible()
    page.click("#death-candidate .cause a")  # the address of a line inside opens it
    playwright.expect(frame).to_be_visible()


def test_every_line_of_a_long_log_is_found(visit: Visit, tmp_path: Path, record_002: ComparisonRecord) -> None:
    texts = [f"line {i} {'x' * 60}{' needle' if i % 10_000 == 9_999 else ''}" for i in range(50_000)]
    texts[49_000] += " Straße 9"
    lines = {"main": [(i * 100, text) for i, text in enumerate(texts)]}
    seen = visit(write_page(record_002, tmp_path, log_lines=lines).as_uri())
    page = seen.page
    assert len(list((tmp_path / "logs").glob("baseline-[0-9]*.js"))) > 3
    page.fill("#find", "STRAßE 9")
    playwright.expect(page.locator("#count")).to_have_text("1 of 50,000 lines")
    assert page.locator("#log-baseline .hits .no").all_inner_texts() == ["49001"]
    asked = [address.rpartition("/")[2] for address in seen.requests if "/logs/" in address]
    assert len([name for name in asked if name != "baseline-letters.js"]) < 4  # only the pieces that can contain it
    page.fill("#find", "NEEDLE")
    playwright.expect(page.locator("#count")).to_have_text("5 of 50,000 lines")
    hits = page.locator("#log-baseline .hits .no")
    assert hits.all_inner_texts() == ["10000", "20000", "30000", "40000", "50000"]
    page.locator("#log-baseline .hits a").nth(3).click()
    line = page.locator("#baseline-L40000.here")
    playwright.expect(line).to_contain_text("line 39999")
    assert is_in_view(line)
    assert page.locator("#log-baseline .line").count() < 5_000  # only the nearby lines of fifty thousand


def test_hits_are_marked_in_the_log_and_visited_in_order(visit: Visit, address: str, logs_002: Lines) -> None:
    page, count = visit(address).page, sum(map(len, logs_002.values()))
    page.fill("#find", "completed step: 9")
    playwright.expect(page.locator("#count")).to_have_text(f"2 of {count} lines")
    marked = page.locator(".lines mark")
    playwright.expect(marked).to_have_text(["completed step: 9"] * 2)
    page.click("[data-hit='1']")
    playwright.expect(page.locator("#log-baseline .here mark")).to_have_count(1)
    page.click("[data-hit='1']")
    playwright.expect(page.locator("#log-candidate .here mark")).to_have_count(1)
    assert page.locator("#at-hit").inner_text() == "2 of 2"
    page.click("[data-hit='-1']")
    playwright.expect(page.locator("#at-hit")).to_have_text("1 of 2")
    page.fill("#find", "")
    playwright.expect(marked).to_have_count(0)
    assert page.locator("#hit-tools").is_hidden()


def test_the_level_filters_the_lines_of_the_logs(
    visit: Visit, tmp_path: Path, record_000: ComparisonRecord, logs_000: Lines
) -> None:
    page = visit(write_page(record_000, tmp_path, log_lines=logs_000).as_uri()).page
    page.select_option("#level", "l-error")
    playwright.expect(page.locator("#log-candidate .hits a")).to_contain_text(["NotImplementedError: Pure NNX"])
    assert page.locator("#log-baseline .hits a").count() == 0
    page.fill("#find", "no such word")
    playwright.expect(page.locator(".hits a")).to_have_count(0)
    assert "level=l-error" in page.evaluate("location.search")


@contextmanager
def served(server: uvicorn.Server) -> Iterator[str]:
    """Serve in a thread; yields the address of the index."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    yield address
    server.should_exit = True
    thread.join()


def hover(page: Any, step: int) -> None:
    """Moves the mouse over a step of the curves, which go from step 0 to 9."""
    chart = drawn(page)
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 64 + (box["width"] - 80) * step / 9, box["y"] + 100, steps=3)
    playwright.expect(page.locator("#told")).to_contain_text(f"step {step}:")


def is_in_view(element: Any) -> bool:
    """Whether it comes into view: the page scrolls there when its address changes."""
    for _ in range(WAIT_MS // 100):
        box = element.bounding_box() if element.count() else None
        if box is not None and 0 <= box["y"] <= 900:
            return True
        element.page.wait_for_timeout(100)
    return False


def test_a_point_shows_run_step_and_value_and_links_to_its_line(visit: Visit, address: str) -> None:
    page = visit(address).page
    drawn(page)
    page.select_option("#curve", label="Step time, s")
    drawn(page, "step_time_s")
    page.locator("#plot circle.baseline").nth(7).hover(force=True)
    playwright.expect(page.locator("#told")).to_contain_text("step 7: baseline 9.671")
    for side, seconds in (("candidate", "0.006"), ("baseline", "9.671")):  # the nearest point to the click
        point = page.locator(f"#plot circle.{side}").nth(7)
        point.scroll_into_view_if_needed()
        point.click(force=True)
        line = page.locator(f"#log-{side} .here")
        playwright.expect(line).to_contain_text(f"completed step: 7, seconds: {seconds}")
        assert is_in_view(line)
    page.locator("#told a", has_text="0.006").click()  # and for the keyboard each value is a link
    playwright.expect(page.locator("#log-candidate .here")).to_contain_text("completed step: 7, seconds: 0.006")


def test_the_readers_choices_are_kept_in_the_address(visit: Visit, address: str) -> None:
    page = visit(address).page
    chart = drawn(page)
    page.check("#log-scale")
    page.select_option("#smooth", "0.9")
    playwright.expect(page.locator("#plot path.raw")).to_have_count(2)
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 64 + (box["width"] - 80) * 2 / 9, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 64 + (box["width"] - 80) * 6 / 9, box["y"] + 100, steps=3)
    page.mouse.up()
    playwright.expect(page.locator("#all-steps")).to_be_visible()
    asked = page.evaluate("location.search")  # `page.url` may be updated later
    assert {"smooth=0.9", "log=1"} <= set(asked.strip("?").split("&"))
    page.reload()
    drawn(page)
    assert page.locator("#all-steps").is_visible()
    assert page.locator("#log-scale").is_checked()
    page.click("#all-steps")
    playwright.expect(page.locator("#all-steps")).to_be_hidden()
    page.click("[data-rows=changed]")  # not regressed: the two cannot be compared
    shown = [row.get_attribute("id") for row in page.locator("tr[data-verdict]:visible").all()]
    assert "m-memory_percent" in shown
    assert len(shown) < page.locator("tr[data-verdict]").count()
    again = visit(page.evaluate("location.href")).page
    assert again.locator("tr[data-verdict]:visible").count() == len(shown)


WIDTHS = (340, 390, 600, 840, 970, 1060, 1100, 1280, 1920)


def width_needed(page: Any, width: int) -> int:
    """The width of the page in a window of this width, once its charts have been redrawn."""
    page.set_viewport_size({"width": width, "height": 900})
    for _ in range(60):
        page.wait_for_timeout(400)
        needed = int(page.evaluate("document.scrollingElement.scrollWidth"))
        if needed <= width:
            break
    return needed


def test_the_page_fits_every_width(visit: Visit, address: str) -> None:
    page = visit(address).page
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    assert [width for width in WIDTHS if width_needed(page, width) > width] == []


def test_hostile_text_does_not_widen_the_page(
    visit: Visit, tmp_path: Path, hostile_record: ComparisonRecord, hostile_logs: Lines
) -> None:
    page = visit(write_page(hostile_record, tmp_path, log_lines=hostile_logs).as_uri()).page
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    assert [width for width in WIDTHS if width_needed(page, width) > width] == []


def test_the_index_links_to_the_pages_and_fits_every_width(
    visit: Visit,
    tmp_path: Path,
    record_002: ComparisonRecord,
    hostile_record: ComparisonRecord,
    hostile: str,
) -> None:
    store = Store(tmp_path)
    page = store.comparison(record_002.comparison, record_002.case, record_002.id).page
    home = write_page(record_002, page.parent, log_lines={}, home="../../../../index.html")
    update_index(store, add_comparison(record_002))
    update_index(store, add_comparison(hostile_record.replace(comparison="x", case=hostile)))
    cell = NightCell(comparison=hostile, case=hostile)
    plan = NightPlan(id="2026-11-21", created="", target=hostile, slices=1, request="x", cells=(cell,))
    result = CellResult(cell=cell, outcome="failed", headline=hostile, page="javascript:window.owned=2")
    update_index(store, add_nights([NightRecord(plan=plan, results=(result,), ended="2026-11-21T04:00:00+00:00")]))
    seen = visit((tmp_path / "index.html").as_uri(), ready=False)
    shown = seen.page
    assert shown.locator("#compared tbody tr").count() == 2
    assert shown.locator("#nights td").inner_text().split() == ["✗", "failed"]
    shown.select_option("#filters [name=target]", record_002.target)
    playwright.expect(shown.locator(".night")).to_be_hidden()  # it has another target
    shown.select_option("#filters [name=target]", "")
    shown.fill("#filters [name=find]", record_002.comparison)
    playwright.expect(shown.locator("#count")).to_have_text("1 of 2 comparisons fit")
    # the count was 1 of 2 for the target too: the address is the sign that the page has applied this filter
    playwright.expect(shown).to_have_url(re.compile(f"find={record_002.comparison}"))
    assert shown.locator("#nights td a, a[href^='javascript'], main img, main script").count() == 0
    assert [width for width in WIDTHS if width_needed(shown, width) > width] == []
    shown.click(f"#compared a:has-text('{record_002.case}')")
    shown.wait_for_url(home.as_uri())
    shown.click("a.brand")
    shown.wait_for_url((tmp_path / "index.html").as_uri())
    assert shown.evaluate("window.owned") is None
    assert seen.foreign() == []
    assert seen.complaints == []


def test_without_javascript_the_figures_and_the_complete_logs_are_available(visit: Visit, address: str) -> None:
    page = visit(address, ready=False, java_script_enabled=False).page
    assert page.locator("#m-final_loss").is_visible()
    assert page.locator(".commands code").is_visible()
    assert page.locator(".commands button").count() == 0
    page.click("#log-baseline > summary")
    assert page.locator("#log-baseline a[href='logs/baseline.txt']").is_visible()


def test_a_page_with_missing_files_reports_it(visit: Visit, tmp_path: Path, address: str) -> None:
    for file in (*(tmp_path / "curves").iterdir(), *(tmp_path / "logs").iterdir()):
        file.unlink()
    page = visit(address).page
    page.locator("#curves").scroll_into_view_if_needed()
    playwright.expect(page.locator("#plot")).to_contain_text("keep the page in its folder")
    page.click("#log-baseline > summary")
    playwright.expect(page.locator("#log-baseline .lines")).to_contain_text("keep the page in its folder")


def test_one_key_opens_the_next_case(visit: Visit, tmp_path: Path, record_002: ComparisonRecord) -> None:
    store = Store(tmp_path)
    pages = {}
    for case in ("01_base", "03_dropout", "04_int8"):
        record = record_002.replace(case=case)
        folder = store.comparison(record.comparison, case, record.id).path
        pages[case] = write_page(record, folder, log_lines={}, neighbours=cases_of(record)).as_uri()
        update_index(store, add_comparison(record))
    page = visit(pages["03_dropout"]).page
    playwright.expect(page.locator("a[rel=next]")).to_have_attribute("title", "next case: 04_int8, unknown")
    page.keyboard.press("[")
    page.wait_for_url(pages["01_base"])
    assert page.locator("a[rel=prev]").count() == 0


def test_the_page_of_a_quarantined_case_is_marked(visit: Visit, tmp_path: Path, record_002: ComparisonRecord) -> None:
    store = Store(tmp_path)
    folder = store.comparison(record_002.comparison, record_002.case, record_002.id).path
    page = write_page(record_002, folder, log_lines={}, neighbours=cases_of(record_002))
    update_index(store, add_comparison(record_002))
    for reason in ("flaky since May", ""):
        cell = NightCell(comparison=record_002.comparison, case=record_002.case, quarantine=reason)
        plan = NightPlan(id="2026-11-21", created="", target=record_002.target, slices=1, request="x", cells=(cell,))
        result = CellResult(cell=cell, outcome="unknown", headline="")
        publish_night(store, NightRecord(plan=plan, results=(result,), ended="2026-11-21T04:00:00+00:00"))
        reported = visit(page.as_uri()).page.locator("#quarantine")
        assert reported.is_visible() is bool(reason)
        assert reason in reported.inner_text()


def test_the_printed_page_has_a_table_and_no_controls(visit: Visit, address: str) -> None:
    seen = visit(address, width=794)  # A4 at 96 dots per inch: on a screen this narrow the rows become cards
    page = seen.page
    drawn(page)
    page.pdf(format="A4")
    display = "getComputedStyle(document.getElementById('m-final_loss')).display"
    assert page.evaluate(display) == "grid"
    page.emulate_media(media="print")
    assert page.evaluate(display) == "table-row"
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 794
    for control in ("button:not(.sort)", "input", "select", ".top nav", "#logs"):  # the text of a heading stays
        assert page.locator(f"{control}:visible").count() == 0
    assert page.locator("#m-final_loss").is_visible()
    assert seen.complaints == []


def test_side_by_side_one_log_follows_the_other_by_step(
    visit: Visit, tmp_path: Path, record_002: ComparisonRecord
) -> None:
    steps = 400
    logs: Lines = {}
    curves = []
    for arm, lines_a_step in ((record_002.baseline.name, 1), (record_002.candidate.name, 5)):
        texts = [
            f"completed step: {i // lines_a_step}" if i % lines_a_step == 0 else "  more"
            for i in range(steps * lines_a_step)
        ]
        logs[arm] = [(i * 100, text) for i, text in enumerate(texts)]
        places = range(0, len(texts), lines_a_step)
        curve = next(curve for curve in record_002.curves if curve.arm == arm)
        curves.append(
            curve.replace(
                steps=tuple(range(steps)),
                values=tuple(float(step) for step in range(steps)),
                lines=tuple(place + 1 for place in places),
                offsets=tuple(place * 100 for place in places),
            )
        )
    record = record_002.replace(curves=tuple(curves), divergence=None)
    page = visit(write_page(record, tmp_path, log_lines=logs).as_uri()).page
    page.click("#beside")
    page.locator("#log-candidate .line").first.wait_for()
    page.locator("#log-baseline .lines").hover()
    page.mouse.wheel(0, 24 * 300)  # a line is about 24 px high
    playwright.expect(page.locator("#at-step")).to_have_text(re.compile(r"step [23]\d\d"))
    top = """name => {
        const pane = document.querySelector(`#log-${name} .lines`), edge = pane.getBoundingClientRect().top;
        const shown = [...pane.querySelectorAll(".line")];
        return shown.find(line => line.getBoundingClientRect().bottom > edge + 2).innerText;
    }"""
    own = page.evaluate(top, "baseline").split()[-1]
    playwright.expect(page.locator("#at-step")).to_have_text(f"step {own}")
    for _ in range(WAIT_MS // 100):
        if page.evaluate(top, "candidate").endswith(f"completed step: {own}"):
            break
        page.wait_for_timeout(100)
    assert page.evaluate(top, "candidate").endswith(f"completed step: {own}")
    assert page.evaluate("location.search") == "?beside=1"
    page.click("#beside")
    assert page.locator("#panes.beside").count() == 0


def test_a_line_of_one_log_only_links_to_its_place(
    visit: Visit, tmp_path: Path, record_002: ComparisonRecord, logs_002: Lines
) -> None:
    main, branch = logs_002[record_002.baseline.name], logs_002[record_002.candidate.name]
    logs_002[record_002.candidate.name] = [*branch, (branch[-1][0] + 100, "a warning that nobody else gives 17")]
    assert main
    page = visit(write_page(record_002, tmp_path, log_lines=logs_002).as_uri()).page
    page.press("#d-lines > summary", "Enter")  # a click may hit a page that is still growing
    row = page.locator("#d-lines tbody tr", has_text="a warning")  # the other one is the commit of a checkpoint
    playwright.expect(row).to_have_count(1)
    row.locator("a").click()
    playwright.expect(page.locator("#log-candidate .here")).to_contain_text("a warning that nobody else gives 17")


def test_a_phone_can_use_every_function(visit: Visit, address: str, logs_002: Lines) -> None:
    seen = visit(address, **PHONE)
    page, count = seen.page, sum(map(len, logs_002.values()))
    page.tap("[data-rows=changed]")
    page.tap("#m-memory_percent summary")
    playwright.expect(page.locator("#m-memory_percent .threshold")).to_be_visible()
    page.tap("[data-rows=changed]")
    page.tap("#calm")  # equal rows are collapsed at first, and so are the logs
    assert not page.locator("#find").is_visible()
    page.tap("#m-final_loss td[data-label=candidate] a")
    playwright.expect(page.locator("#log-candidate .here")).to_contain_text("completed step: 9,")
    page.fill("#find", "jax version")
    playwright.expect(page.locator("#count")).to_have_text(f"2 of {count} lines")
    page.tap("#log-baseline .hits a")
    playwright.expect(page.locator("#log-baseline .here")).to_contain_text("Jax Version")
    chart = drawn(page)
    chart.tap()
    playwright.expect(page.locator("#told")).to_contain_text("step ")
    assert seen.complaints == []


def test_the_keyboard_reaches_the_curves_and_the_search(visit: Visit, address: str) -> None:
    page = visit(address).page
    drawn(page).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    playwright.expect(page.locator("#told")).to_contain_text("step 2:")
    page.keyboard.press("+")
    playwright.expect(page.locator("#all-steps")).to_be_visible()
    page.keyboard.press("0")
    playwright.expect(page.locator("#all-steps")).to_be_hidden()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#log-candidate .here")).to_contain_text("completed step:")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"


@pytest.fixture
def site(
    tmp_path: Path, record_000: ComparisonRecord, record_002: ComparisonRecord, logs_000: Lines, logs_002: Lines
) -> dict[str, str]:
    """The address of one page of each kind."""
    store = Store(tmp_path)
    found = {}
    commit = Commit(sha="a" * 40, time="2026-04-17T10:11:12+02:00", author="A. Uthor", subject="scales in float32")
    parted = record_002.candidate.replace(commit=commit.sha)
    listed = record_002.replace(candidate=parted, commits={parted.name: (commit,)})
    for record, logs in ((record_000, logs_000), (listed, logs_002)):
        folder = store.comparison(record.comparison, record.case, record.id).path
        found[record.comparison] = write_page(record, folder, log_lines=logs).as_uri()
        update_index(store, add_comparison(record))
    cell = NightCell(comparison=record_000.comparison, case="01_base", owner="a team", quarantine="flaky since May")
    plan = NightPlan(id="2026-11-21", created="", target="cpu", slices=1, request="x", cells=(cell,))
    result = CellResult(cell=cell, outcome="failed", headline="it failed")
    night = NightRecord(plan=plan, results=(result,), ended="2026-11-21T04:00:00+00:00", changes=CHANGES)
    update_index(store, add_nights([night]))
    series = _series_with_a_change()
    loss = series.replace(metric="final_loss")
    history = write_history_page([judge(series), judge(loss)], store)
    assert history is not None
    return found | {"front": (tmp_path / "index.html").as_uri(), "history": history.as_uri()}


CHANGES = (
    NightChange(
        kind="outcome", comparison="linen-vs-nnx", case="01_base", owner="a team", outcome="failed", before="same",
        text="it failed",
    ),
    NightChange(kind="bisected", comparison="linen-vs-nnx", case="02_remat", text="something else"),
)  # fmt: skip


def _series_with_a_change() -> Series:
    """Twelve nights; from the seventh on the candidate is a tenth slower."""
    nights = [
        Night(
            comparison_id=f"{day:010x}", time=datetime(2026, 11, day + 1, tzinfo=UTC), baseline=0.1 + day % 3 / 1e4,
            candidate=(0.1 if day < 6 else 0.11) + day % 2 / 1e4, runs=(1, 1), baseline_commit="a" * 40,
            candidate_commit="b" * 40 if day < 6 else "c" * 40, baseline_jax=None, candidate_jax=None, verdict=None,
            same_program=False,
        )
        for day in range(12)
    ]  # fmt: skip
    return Series(
        comparison="main-vs-branch", pair="main → feat/x", case="01_base", target="cpu", metric="step_time_s", unit="s",
        better="lower", baseline_arm="main", candidate_arm="feat/x", nights=tuple(nights),
    )  # fmt: skip


def test_the_history_shows_the_selection(visit: Visit, site: dict[str, str]) -> None:
    page = visit(site["history"], ready=False).page
    row = page.locator("[data-pair] tbody tr").first
    page.fill("#filters [name=find]", "03_dropout")
    playwright.expect(row).to_be_hidden()
    assert page.locator("#count").inner_text() == "nothing fits these filters"
    page.fill("#filters [name=find]", "01 feat/x")
    page.select_option("#filters [name=pair]", "main-vs-branch · main → feat/x · cpu")
    playwright.expect(row).to_be_visible()
    page.select_option("#filters [name=metric]", label="Final loss")
    charts = page.locator("td.series")
    playwright.expect(charts.locator("visible=true")).to_have_count(1)
    page.reload()
    assert page.input_value("#filters [name=find]") == "01 feat/x"
    assert row.is_visible()
    assert [charts.nth(at).is_visible() for at in range(2)] == [False, True]
    page.click("#filters [type=reset]")
    playwright.expect(charts.locator("visible=true")).to_have_count(2)


def test_every_chart_of_the_history_has_the_same_days(visit: Visit, tmp_path: Path) -> None:
    """A pair that was compared on the last six of twelve days is drawn in the right half."""
    long = _series_with_a_change()
    short = long.replace(case="03_dropout", pair="main → new", nights=long.nights[6:])
    history = write_history_page([judge(short), judge(long)], Store(tmp_path))
    assert history is not None
    page = visit(history.as_uri(), ready=False).page
    firsts = [line.get_attribute("points").split(",")[0] for line in page.locator(".trends polyline.candidate").all()]
    assert [float(x) for x in firsts] == [
        pytest.approx(100 * 0.5 / 12, abs=0.01),
        pytest.approx(100 * 6.5 / 12, abs=0.01),
    ]
    dates = [text.text_content() for text in page.locator(".axis").first.locator("text").all()]
    assert (dates[0], dates[-1]) == ("11-01", "11-12")
    assert "moved" in page.locator(".moved summary").first.inner_text()  # the cause is visible without opening the note


def test_every_chart_of_the_history_has_its_highest_and_lowest_value(visit: Visit, tmp_path: Path) -> None:
    """The series goes from 0.1 s to 0.1101 s; the change at the top has its curve, too."""
    history = write_history_page([judge(_series_with_a_change())], Store(tmp_path))
    assert history is not None
    page = visit(history.as_uri(), ready=False).page
    assert page.locator(".series .scale span").all_inner_texts() == ["0.110", "0.100"]
    assert page.locator(".moved .series polyline").count() == 2


def test_every_table_of_every_page_sorts_by_each_column(visit: Visit, site: dict[str, str]) -> None:
    for kind, address in site.items():
        page = visit(address, ready=False).page
        heads = page.locator("table:has(thead) thead th")
        assert heads.count() == page.locator("th .sort").count() > 0, kind
    page = visit(site["main-vs-branch"]).page
    rows = page.locator("#metrics tbody").first.locator("tr:not(.group) th")
    before = rows.all_inner_texts()
    button = page.locator("#metrics thead .sort").first
    for order in (sorted(before, key=str.lower), sorted(before, key=str.lower, reverse=True), before):
        button.click()
        assert rows.all_inner_texts() == order
    values = page.locator("#metrics tbody").first.locator("td[data-label=baseline]")
    page.locator("#metrics thead .sort").nth(1).click()
    found = [
        float(text.replace(",", "").split()[0])
        for text in values.all_inner_texts()
        if text[0].isdigit() and text.count(".") < 2
    ]
    assert found == sorted(found)


def test_the_changes_of_level_sort_by_every_column(visit: Visit, tmp_path: Path) -> None:
    slower = _series_with_a_change()
    nights = [night.replace(candidate=0.1 - 0.02 * (day > 5)) for day, night in enumerate(slower.nights)]
    faster = slower.replace(case="03_dropout", nights=tuple(nights))
    history = write_history_page([judge(slower), judge(faster)], Store(tmp_path))
    assert history is not None
    page = visit(history.as_uri(), ready=False).page
    cases = page.locator(".moved tbody th a")
    for head, *orders in (
        ("case", 1, -1),
        ("verdict", -1, 1),
        ("change", -1, 1),
    ):  # better before worse, -20 % before +10 %
        for order in orders:
            page.locator(".moved .sort", has_text=head).first.click()
            assert cases.all_inner_texts() == ["01_base", "03_dropout"][::order]


@pytest.mark.parametrize("device", [{}, PHONE])
def test_a_change_in_the_last_night_is_marked(visit: Visit, tmp_path: Path, device: dict[str, Any]) -> None:
    store, whole = Store(tmp_path), _series_with_a_change()
    jumped = judge(whole)
    assert jumped.events[0].after == whole.nights[6]
    marked = []
    for last in (7, 12):  # the change is in the seventh night
        series = whole.replace(nights=whole.nights[:last])
        history = write_history_page([jumped.replace(series=series)], store)
        assert history is not None
        marked.append(visit(history.as_uri(), ready=False, **device).page.locator(".moved .fresh").count())
    assert marked == [1, 0]


def test_an_empty_store_and_a_wrong_address_have_pages(visit: Visit, tmp_path: Path) -> None:
    store = Store(tmp_path)
    server = make_server(store.path, front=render_index(StoreIndex(), store), not_found=render_not_found())
    with served(server) as address:
        empty = visit(address, ready=False)
        assert "Nothing was compared yet" in empty.page.locator("h1").inner_text()
        assert empty.page.locator("code", has_text="maxview compare linen-vs-nnx").is_visible()
        assert empty.complaints == []
        lost = visit(f"{address}comparisons/a/b/c/index.html", ready=False)
        assert lost.page.locator("h1").inner_text() == "There is no page at this address."
        lost.page.click("a.brand")
        lost.page.wait_for_url(f"{address}index.html")
        assert [text for text in lost.complaints if "404" not in text] == []


@pytest.mark.parametrize("device", [{}, PHONE])
def test_a_point_of_the_history_links_to_its_comparison(visit: Visit, tmp_path: Path, device: dict[str, Any]) -> None:
    store, series = Store(tmp_path), _series_with_a_change()
    pages = [store.comparison(series.comparison, series.case, night.comparison_id).page for night in series.nights]
    for page in pages:
        page.parent.mkdir(parents=True)
        page.write_text("<!doctype html><title>a night</title>")
    history = write_history_page([judge(series)], store)
    assert history is not None
    seen = visit(history.as_uri(), ready=False, **device)
    chart = seen.page.locator("[data-chart]").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    where = {"x": box["width"] * 7.5 / 12, "y": 20}  # the eighth of twelve nights
    if device:
        chart.tap(position=where)
        reported = seen.page.locator(".told-night")
        assert reported.inner_text() == "2026-11-08, baseline 0.1001, candidate 0.1101"  # its verdict is not known
        reported.tap()
    else:
        chart.click(position=where)
    seen.page.wait_for_url(pages[7].as_uri())
    seen.page.go_back()
    chart.focus()
    seen.page.keyboard.press("ArrowLeft")
    assert chart.get_attribute("aria-valuetext").startswith("2026-11-11, baseline 0.1001")
    seen.page.keyboard.press("Enter")
    seen.page.wait_for_url(pages[10].as_uri())
    assert seen.complaints == []


def test_a_note_of_the_history_names_its_owner(visit: Visit, tmp_path: Path) -> None:
    long = _series_with_a_change()
    short = long.replace(case="03_dropout", pair="main → new", nights=long.nights[:1])
    history = write_history_page([judge(short), judge(long)], Store(tmp_path))
    assert history is not None
    pairs = visit(history.as_uri(), ready=False).page.locator("[data-pair]")
    assert "main → feat/x" in pairs.nth(0).inner_text()  # of the case with more details
    assert pairs.nth(0).locator(".note").count() == 0
    assert pairs.nth(1).locator(".note").inner_text().startswith("03_dropout · Step time, typical: 1 night")


@pytest.fixture
def many(tmp_path: Path, record_002: ComparisonRecord) -> str:
    """The index of 450 comparisons without pages; every tenth regressed, the last hundred on a TPU."""
    found = [
        index_comparison(record_002).replace(
            id=f"{number:010x}",
            case=f"{number % 7:02d}_case",
            created=(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)).isoformat(),
            verdict="same" if number % 10 else "regressed",
            target="v6e-32" if number >= 350 else "cpu",
        )
        for number in range(450)
    ]
    store = Store(tmp_path)
    update_index(store, add_results(found, {}))
    return (tmp_path / "index.html").as_uri()


def test_a_phone_shows_300_comparisons_of_12_pairs_in_4000_pixels(
    visit: Visit, tmp_path: Path, record_002: ComparisonRecord
) -> None:
    item = index_comparison(record_002)
    found = [
        item.replace(id=f"{n:010x}", case=f"{n // 12 % 16:02d}_case", candidate=f"branch-{n % 12}") for n in range(300)
    ]
    store = Store(tmp_path)
    update_index(store, add_results(found, {}))
    page = visit((tmp_path / "index.html").as_uri(), **PHONE).page
    assert page.evaluate("document.scrollingElement.scrollHeight") <= 4000
    assert page.evaluate(SCROLLED) == []
    rows = page.locator("#matrix .cell:visible")
    playwright.expect(rows).to_have_count(AT_FIRST)
    page.click("#every")
    playwright.expect(rows).to_have_count(12 * 16)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.evaluate("scrollTo({ top: 1500, behavior: 'instant' })")
    head = page.locator("#matrix thead th").nth(3)
    assert abs(head.bounding_box()["y"]) < 40  # stays in view


@pytest.mark.parametrize("device", [{}, PHONE])
def test_the_index_is_filtered_and_its_address_keeps_the_filter(
    visit: Visit, many: str, device: dict[str, Any]
) -> None:
    page = visit(many, **device).page
    count, rows = page.locator("#count"), page.locator("#list tbody tr")
    shown = 12 if device else 40  # a page of thousands of rows would be useless
    playwright.expect(rows).to_have_count(shown)
    page.click("#all summary")
    page.click("#more")
    playwright.expect(rows).to_have_count(2 * shown)
    page.fill("[name=find]", "06_case")
    playwright.expect(count).to_have_text("64 of 450 comparisons fit")
    page.select_option("[name=verdict]", "regressed")
    playwright.expect(count).to_have_text("7 of 450 comparisons fit")  # of 20, 90, 160, …
    page.select_option("[name=target]", "v6e-32")
    playwright.expect(count).to_have_text("2 of 450 comparisons fit")  # 370 and 440
    page.fill("[name=since]", "2026-01-19")  # the 432nd hour begins this day
    playwright.expect(count).to_have_text("1 of 450 comparisons fit")
    asked = page.evaluate("location.search").strip("?").split("&")
    assert set(asked) == {"find=06_case", "verdict=regressed", "target=v6e-32", "since=2026-01-19"}
    page.reload()
    playwright.expect(count).to_have_text("1 of 450 comparisons fit")
    assert rows.locator("a").get_attribute("href") == f"comparisons/main-vs-branch/06_case/{440:010x}/index.html"
    assert page.locator("#matrix tbody tr:visible").count() == 0  # none of its newest comparisons matches
    page.fill("[name=find]", "no such case")
    playwright.expect(page.locator("#nothing")).to_be_visible()
    page.click("button[type=reset]")
    playwright.expect(count).to_have_text("the lists below show all 450 comparisons of all nights")
    playwright.expect(page.locator("#nothing")).to_be_hidden()
    page.click("[data-sort=created] button")
    playwright.expect(rows.first).to_contain_text("2026-01-01 00:00")  # the first comparison, of a segment
    page.click("[data-sort=created] button")
    assert "2026-01-19 17:00" in rows.first.inner_text()  # the last comparison, 449 hours later
    page.locator("body").press("/")
    assert page.evaluate("document.activeElement.name") == "find"


@pytest.mark.parametrize("device", [{}, PHONE])
def test_differences_are_searched(visit: Visit, site: dict[str, str], device: dict[str, Any]) -> None:
    page = visit(site["main-vs-branch"], **device).page
    commit = page.locator("#d-commits tbody tr")
    if device:
        page.tap("#differences summary:has(h2)")
    page.fill("#find-difference", "FLOAT32")
    playwright.expect(commit).to_be_visible()
    page.fill("#find-difference", "no such thing")
    playwright.expect(commit).to_be_hidden()
    page.reload()
    assert page.input_value("#find-difference") == "no such thing"
    playwright.expect(commit).to_be_hidden()


@pytest.mark.parametrize("device", [{}, PHONE])
def test_a_command_is_copied(visit: Visit, address: str, device: dict[str, Any]) -> None:
    page = visit(address, **device).page
    command = page.locator(".commands code")
    page.get_by_role("button", name="copy the command: what to do next").click()
    assert page.locator(".commands + [role=status]").inner_text() == "what to do next: copied"
    if device:
        for part in page.locator("#differences summary:has(h2), #logs summary:has(h2)").all():
            part.tap()
    page.focus("#find-difference, #find")
    page.keyboard.press("Control+V")
    assert page.input_value("#find-difference, #find") == command.inner_text()


@pytest.mark.parametrize("device", [{}, PHONE])
def test_logs_show_the_source_lines_of_values(visit: Visit, address: str, device: dict[str, Any]) -> None:
    page = visit(address, **device).page
    if device:
        page.tap("#logs summary:has(h2)")
    page.press("#log-baseline > summary", "Enter")
    page.locator("#log-baseline [data-values]").click()
    last = page.locator("#log-baseline .hits a", has_text="Final loss")
    playwright.expect(last).to_contain_text("completed step: 9,")
    last.click()
    playwright.expect(page.locator("#log-baseline .here")).to_contain_text("completed step: 9,")
    code = page.locator("#log-baseline .here code")
    playwright.expect(code).to_have_css("white-space", "pre-wrap")
    page.uncheck("#wrap")
    playwright.expect(code).to_have_css("white-space", "pre")


@pytest.mark.parametrize("device", [{}, PHONE])
def test_nights_are_seen_and_changes_open(visit: Visit, site: dict[str, str], device: dict[str, Any]) -> None:
    front = visit(site["front"], **device).page
    cell = front.locator("#nights td", has_text="in quarantine: flaky since May")
    assert cell.is_visible()
    assert "in quarantine: flaky since May" in cell.get_attribute("title")
    history = visit(site["history"], ready=False, **device).page
    change = history.locator(".moved details").first
    change.locator("summary").click()
    playwright.expect(change).to_contain_text(f"git log --oneline {'b' * 9}..{'c' * 9}")
    history.locator(".moved a").first.click()
    assert is_in_view(history.locator("td:target"))


def test_touch_reads_and_zooms_the_curves(visit: Visit, address: str) -> None:
    page = visit(address, **PHONE).page
    chart = drawn(page)
    chart.tap()
    playwright.expect(page.locator("#told a").first).to_be_visible()
    assert page.evaluate("location.hash") == ""  # the values are shown; only a mouse click opens the log at once
    page.select_option("#smooth", "0.9")
    page.check("#log-scale")
    playwright.expect(page.locator("#plot path.raw")).to_have_count(2)
    box = page.locator("#plot svg").bounding_box()
    touch = page.context.new_cdp_session(page)
    for kind, part in (("touchStart", 0.4), ("touchMove", 0.6), ("touchMove", 0.8), ("touchEnd", None)):
        points = [] if part is None else [{"x": box["x"] + box["width"] * part, "y": box["y"] + 100}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    playwright.expect(page.locator("#all-steps")).to_be_visible()
    page.wait_for_timeout(1_000)  # the browser combines two quick touches into one gesture
    page.tap("#all-steps")
    playwright.expect(page.locator("#all-steps")).to_be_hidden()
    page.tap("#told a >> nth=0")
    playwright.expect(page.locator(".lines .here")).to_contain_text("completed step:")


def test_the_keyboard_alone_is_sufficient(visit: Visit, site: dict[str, str], page_002: Any) -> None:
    page = visit(site["main-vs-branch"]).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#metrics"
    page.locator("[data-rows=changed]").focus()
    page.keyboard.press("Space")
    playwright.expect(page.locator("#m-memory_percent")).to_be_visible()
    page.locator("#m-memory_percent summary").focus()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#m-memory_percent .threshold")).to_be_visible()
    chart = drawn(page)
    chart.focus()
    page.keyboard.press("ArrowRight")
    assert chart.get_attribute("aria-valuenow") == "1"
    assert chart.get_attribute("aria-valuetext").startswith("step 1: baseline ")
    page.locator("#log-baseline > summary").focus()
    page.keyboard.press("Enter")
    playwright.expect(page.locator(f"#baseline-L{page_002.line('main', 'XPK Start')}")).to_be_visible()


NAMED = (
    "table",
    "region",
    "form",
    "navigation",
    "img",
    "link",
    "button",
    "searchbox",
    "combobox",
    "checkbox",
    "slider",
)


@pytest.mark.parametrize("kind", ["front", "history", "linen-vs-nnx", "main-vs-branch"])
def test_a_screen_reader_gets_roles_and_names(visit: Visit, site: dict[str, str], kind: str) -> None:
    page = visit(site[kind], ready=kind != "history").page
    page.evaluate(OPEN_ALL)
    if "vs" in kind:
        drawn(page)
        page.locator(".lines .line, .lines summary").first.wait_for()
    reported = page.locator("body").aria_snapshot()
    roles = re.findall(rf"^ *- '?({'|'.join(NAMED)})(.*)$", reported, re.MULTILINE)
    assert len(roles) > 10
    assert [line for line in roles if not line[1].startswith(' "')] == []
    levels = [int(level) for level in re.findall(r"- '?heading .*\[level=(\d)\]", reported)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for landmark in ("banner", "main"):
        assert len(re.findall(rf"^- {landmark}:", reported, re.MULTILINE)) == 1
    assert "- status" in reported  # the results of a search


OPEN_ALL = "document.querySelectorAll('details').forEach(one => { one.open = true; })"


@pytest.mark.parametrize("kind", ["front", "history", "linen-vs-nnx", "main-vs-branch"])
@pytest.mark.parametrize(("scheme", "device"), [("light", {}), ("dark", {}), ("light", PHONE)])
def test_axe_finds_nothing(visit: Visit, site: dict[str, str], kind: str, scheme: str, device: dict[str, Any]) -> None:
    page = visit(site[kind], ready=kind != "history", color_scheme=scheme, **device).page
    page.evaluate(OPEN_ALL)
    if "vs" in kind:
        drawn(page)
        page.fill("#find", "step")
        page.locator(".lines .line, .lines summary").first.wait_for()
    page.evaluate(axe.AXE_SCRIPT)
    found = page.evaluate("axe.run({resultTypes: ['violations'], rules: {'target-size': {enabled: true}}})")
    assert len(found["passes"]) > 20
    reported = [(item["id"], [node["html"][:200] for node in item["nodes"][:3]]) for item in found["violations"]]
    assert reported == []
