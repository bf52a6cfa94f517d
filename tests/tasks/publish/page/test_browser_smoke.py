"""A page opens in a real browser without errors, draws its curves, and finds a line of its log.

test_browser.py tests all other functions, which takes longer. Skipped without playwright or Chromium.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks.publish.page.write_page import write_page
from tasks.records.compared_case import ComparisonRecord


def test_a_page_is_usable(
    visit: Callable[..., Any],
    tmp_path: Path,
    record_002: ComparisonRecord,
    logs_002: dict[str, list[tuple[int, str]]],
    page_002: Any,
) -> None:
    seen = visit(write_page(record_002, tmp_path, log_lines=logs_002).as_uri())
    page = seen.page
    page.locator("#curves").scroll_into_view_if_needed()
    page.wait_for_selector("#plot[data-drawn=step_time_s] svg")  # the deciding row's curve
    page.fill("#find", "completed step: 9,")
    page.locator("#log-baseline .hits a").first.click()
    page.locator("#log-baseline .here").wait_for()
    assert (
        page.locator("#log-baseline .here").get_attribute("id")
        == f"baseline-L{page_002.line('main', 'completed step: 9,')}"
    )
    assert seen.foreign() == []
    assert seen.complaints == []
