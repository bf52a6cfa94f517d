"""The page in a real browser: charts draw, links scroll, nothing foreign runs, nothing leaves the machine.

Needs the playwright package and a Chromium on the PATH (Debian: `apt-get install chromium`); skipped without.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tasks.publish.index import add_comparison, add_nights
from tasks.publish.index_page import update_index
from tasks.publish.page import write_page
from tasks.records import ComparisonRecord
from tasks.resolve.night import CellResult, NightCell, NightPlan, NightRecord
from tasks.store import Store

playwright = pytest.importorskip("playwright.sync_api", reason="the playwright package is not installed")
WAIT_MS = 120_000
playwright.expect.set_options(timeout=WAIT_MS)

type Lines = dict[str, list[tuple[int, str]]]


@dataclass
class Visit:
    """An open page, and everything about it that a healthy page has none of."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def foreign(self) -> list[str]:
        return [address for address in self.requests if not address.startswith(("file:", "data:", "blob:"))]


class Opener:
    """Opens pages in contexts of their own and closes them all."""

    def __init__(self, browser: Any):
        self._browser = browser
        self._contexts: list[Any] = []

    def __call__(self, address: str, *, width: int = 1280, ready: bool = True, **options: Any) -> Visit:
        context = self._browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(WAIT_MS)
        self._contexts.append(context)
        visit = Visit(context.new_page())
        visit.page.on("request", lambda request: visit.requests.append(request.url))
        visit.page.on("console", lambda message: visit.complaints.append(f"{message.type}: {message.text}"))
        visit.page.on("pageerror", lambda error: visit.complaints.append(f"error: {error}"))
        visit.page.on("dialog", lambda dialog: visit.complaints.append(f"dialog: {dialog.message}"))
        visit.page.goto(address)
        if ready:
            visit.page.wait_for_selector("html[data-ready=yes]", state="attached")
        return visit

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Opener]:
    opener = Opener(browser)
    yield opener
    opener.close()


@pytest.fixture
def address(tmp_path: Path, record_002: ComparisonRecord, logs_002: Lines) -> str:
    return write_page(record_002, tmp_path, log_lines=logs_002).as_uri()


def test_the_charts_draw_and_nothing_leaves_the_machine(visit: Opener, address: str) -> None:
    seen = visit(address)
    page = seen.page
    for metric, points in (("loss", 20), ("step_time_s", 20 + 2)):  # ten steps of two arms; two stalls are marked
        plot = page.locator(f"#curve-{metric} .plot")
        assert plot.locator(".main-svg").count() > 0
        assert plot.locator(".scatterlayer .points path").count() == points
    assert page.locator("#curve-step_time_s .legendtext").all_text_contents() == [
        "baseline: main",
        "candidate: feat/Migrate-Decoder-And-Tests-to-NNX",
        "stall: checkpoint",
    ]
    assert seen.foreign() == []
    assert seen.complaints == []


def test_nothing_foreign_runs(
    visit: Opener, tmp_path: Path, hostile_record: ComparisonRecord, hostile_logs: Lines
) -> None:
    seen = visit(write_page(hostile_record, tmp_path, log_lines=hostile_logs).as_uri())
    page = seen.page
    page.locator("details.log").evaluate_all("logs => logs.forEach(log => log.open = true)")
    assert page.locator(".scatterlayer .points path").count() >= 40
    hover(page, "loss", 4)
    assert "window.owned=1" in page.locator("#curve-loss .hoverlayer").text_content()
    page.mouse.move(5, 5)
    assert page.evaluate("window.owned") is None
    assert page.locator("main img[src='x'], main script").count() == 0
    assert page.locator("a[href^='javascript'], svg a").count() == 0
    assert page.locator("h1").inner_text().startswith("</script><script>window.owned=1</script><img src=x")
    assert seen.foreign() == []
    assert seen.complaints == []


def test_the_policy_stops_what_the_page_did_not_bring(visit: Opener, address: str) -> None:
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


def test_a_value_leads_to_its_line_in_the_log(visit: Opener, address: str) -> None:
    page = visit(address).page
    assert page.locator("#log-baseline").get_attribute("open") is None
    page.click("#m-final_loss td[data-label=baseline] a")
    line = page.locator("li:target")
    assert "completed step: 9," in line.inner_text()
    playwright.expect(page.locator("#log-baseline")).to_have_attribute("open", "")  # by an event that follows the click
    assert is_in_view(line)


def test_an_address_with_a_line_opens_there(visit: Opener, address: str) -> None:
    page = visit(f"{address}#candidate-L9").page
    line = page.locator("#candidate-L9")
    assert is_in_view(line)
    assert line.evaluate("line => line.matches(':target')")


def hover(page: Any, metric: str, step: int) -> None:
    """Moves the mouse onto a point of the first curve."""
    plot = page.locator(f"#curve-{metric} .plot")
    plot.scroll_into_view_if_needed()
    box = plot.locator(".scatterlayer .trace").first.locator(".points path").nth(step).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2 - 3, box["y"] + box["height"] / 2)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
    page.wait_for_selector(f"#curve-{metric} .hoverlayer .hovertext")


def is_in_view(element: Any) -> bool:
    """Whether it comes into view: the page goes there when it is told of its new address."""
    for _ in range(WAIT_MS // 100):
        box = element.bounding_box()
        if box is not None and 0 <= box["y"] <= 900:
            return True
        element.page.wait_for_timeout(100)
    return False


def test_a_point_tells_run_step_and_value_and_leads_to_its_line(visit: Opener, address: str) -> None:
    page = visit(address).page
    hover(page, "step_time_s", 1)
    told = page.locator("#curve-step_time_s .hoverlayer").text_content()
    assert "main_20260418_180000" in told
    assert "step 1: 1.399 s" in told
    page.mouse.down()
    page.mouse.up()
    line = page.locator("li:target")
    playwright.expect(line).to_contain_text("completed step: 1, seconds: 1.399")
    assert is_in_view(line)


def test_the_scale_of_a_curve_is_kept_in_the_address(visit: Opener, address: str) -> None:
    page = visit(address).page
    kind = "document.querySelector('#curve-step_time_s .plot').layout.yaxis.type"
    assert page.evaluate(kind) == "log"  # stalls would flatten everything else
    page.click("#curve-step_time_s [data-scale=linear]")
    assert page.evaluate(kind) == "linear"
    assert page.locator("#curve-step_time_s [data-scale=linear]").get_attribute("aria-pressed") == "true"
    assert "step_time_s=linear" in page.evaluate("location.href")  # `page.url` may learn of it later
    page.reload()
    page.wait_for_selector("html[data-ready=yes]", state="attached")
    assert page.evaluate(kind) == "linear"


def test_a_log_can_be_searched_and_the_search_passed_on(visit: Opener, address: str) -> None:
    page = visit(address).page
    page.click("#log-baseline summary")
    page.fill("#log-baseline input[type=search]", "COMPLETED step: 4")
    playwright.expect(page.locator("[data-count=baseline]")).to_have_text("1 of 16 lines")
    shown = page.locator("#log-baseline .lines > li:visible")
    assert shown.count() == 1
    assert "loss: 8.459" in shown.inner_text()
    again = visit(page.evaluate("location.href")).page
    assert again.locator("#log-baseline .lines > li:visible").count() == 1
    again.fill("#log-baseline input[type=search]", "")
    again.check("#log-baseline input[type=checkbox]")
    playwright.expect(again.locator("[data-count=baseline]")).to_have_text("4 of 16 lines")
    texts = again.locator("#log-baseline .lines > li:visible .values").all_inner_texts()
    assert texts == ["JAX, jax-version", "checkpoint 0", "stall: checkpoint", "Final loss, TFLOP/s, Tok/s"]


WIDTHS = (340, 390, 600, 840, 970, 1280, 1920)


def width_needed(page: Any, width: int) -> int:
    """How wide the page is in a window of this width, once its charts have followed, each in its time."""
    page.set_viewport_size({"width": width, "height": 900})
    for _ in range(60):
        page.wait_for_timeout(400)
        needed = int(page.evaluate("document.scrollingElement.scrollWidth"))
        if needed <= width:
            break
    return needed


def test_the_page_fits_every_width(visit: Opener, address: str) -> None:
    page = visit(address).page
    page.locator("details.log").evaluate_all("logs => logs.forEach(log => log.open = true)")
    assert [width for width in WIDTHS if width_needed(page, width) > width] == []


def test_hostile_text_does_not_widen_the_page(
    visit: Opener, tmp_path: Path, hostile_record: ComparisonRecord, hostile_logs: Lines
) -> None:
    page = visit(write_page(hostile_record, tmp_path, log_lines=hostile_logs).as_uri()).page
    page.locator("details.log").evaluate_all("logs => logs.forEach(log => log.open = true)")
    assert [width for width in WIDTHS if width_needed(page, width) > width] == []


def test_the_index_leads_to_the_pages_and_fits_every_width(
    visit: Opener, tmp_path: Path, record_002: ComparisonRecord, hostile_record: ComparisonRecord, hostile: str
) -> None:
    store = Store(tmp_path)
    page = store.comparison(record_002.comparison, record_002.case, record_002.id).page
    home = write_page(record_002, page.parent, log_lines={}, home="../../../../index.html")
    update_index(store, add_comparison(record_002))
    update_index(store, add_comparison(hostile_record.model_copy(update={"case": hostile})))
    cell = NightCell(comparison=hostile, case=hostile)
    plan = NightPlan(id="2026-11-21", created="", target=hostile, slices=1, request="x", cells=(cell,))
    result = CellResult(cell=cell, outcome="failed", headline=hostile, page="javascript:window.owned=2")
    update_index(store, add_nights([NightRecord(plan=plan, results=(result,), ended="2026-11-21T04:00:00+00:00")]))
    seen = visit((tmp_path / "index.html").as_uri(), ready=False)
    shown = seen.page
    assert shown.locator("#compared tbody tr:not(.group)").count() == 2
    assert shown.locator("#nights td").inner_text() == "✗ failed"
    assert shown.locator("#nights td a, a[href^='javascript'], main img, main script").count() == 0
    assert [width for width in WIDTHS if width_needed(shown, width) > width] == []
    shown.click(f"#compared a:has-text('{record_002.case}')")
    shown.wait_for_url(home.as_uri())
    shown.click("a.brand")
    shown.wait_for_url((tmp_path / "index.html").as_uri())
    assert shown.evaluate("window.owned") is None
    assert seen.foreign() == []
    assert seen.complaints == []


def test_curves_follow_the_colours_of_the_page(visit: Opener, address: str) -> None:
    page = visit(address, color_scheme="dark").page
    colour = "document.querySelector('#curve-loss .plot').layout.font.color"
    ink = "getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
    dark = page.evaluate(colour)
    assert dark == page.evaluate(ink)
    page.emulate_media(color_scheme="light")
    # the page's policy forbids playwright's own way of waiting for an expression
    for _ in range(600):
        if page.evaluate(colour) == page.evaluate(ink) != dark:
            break
        page.wait_for_timeout(100)
    assert page.evaluate(colour) == page.evaluate(ink) != dark


def test_without_javascript_the_figures_and_the_loss_are_still_there(visit: Opener, address: str) -> None:
    page = visit(address, ready=False, java_script_enabled=False).page
    assert page.locator("#m-final_loss").is_visible()
    assert page.locator("#curve-loss img").is_visible()
    assert page.locator("#m-final_loss td[data-label=baseline] a").get_attribute("href") == "#baseline-L14"


def test_a_page_that_lost_its_drawing_program_says_so(visit: Opener, tmp_path: Path, address: str) -> None:
    for file in (tmp_path / "assets").iterdir():
        file.unlink()
    page = visit(address).page
    assert "keep the page in its folder" in page.locator("#curves-help").inner_text()
    assert page.locator("#curve-loss img").is_visible()


def test_on_paper_there_is_a_table_and_no_control(visit: Opener, address: str) -> None:
    page = visit(address, width=794).page  # A4 at 96 dots per inch: on a screen this narrow the rows become cards
    display = "getComputedStyle(document.getElementById('m-final_loss')).display"
    assert page.evaluate(display) == "grid"
    page.emulate_media(media="print")
    assert page.evaluate(display) == "table-row"
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 794
    for control in ("button", "input", ".top nav", "#logs details"):
        assert page.locator(f"{control}:visible").count() == 0
    assert page.locator("#m-final_loss").is_visible()
