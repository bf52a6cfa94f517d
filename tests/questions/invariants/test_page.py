"""The page of invariants in a real browser: each twin has a visible row, and the page fits a phone."""

from pathlib import Path
from typing import Any

import pytest

from questions.invariants.judge_twin import answer
from questions.invariants.page import publish_invariants
from questions.invariants.twin_files import load_twins
from questions.invariants.twin_records import InvariantsRecord
from tasks.store.store import open_store


@pytest.mark.long
def test_each_twin_has_a_visible_row(browser: Any, tmp_path: Path) -> None:
    twins = load_twins(("scan", "dtype"))
    results = [answer(twin, f"{case:02d}_case", "same", "equal", gap=1e-15) for twin in twins for case in range(18)]
    results.append(answer(twins[0], "12_pipeline", "not applicable", "a pipeline always loops"))
    record = InvariantsRecord(id="a", trainer="maxview", version="v", created="2026-11-25", results=tuple(results))
    _, path = publish_invariants(record, open_store(str(tmp_path)))
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(path.as_uri())
    assert page.locator("#twins tbody tr:visible").count() == len(twins)
    assert page.locator("#twins tbody tr:visible").first.locator("td").last.inner_text() == "1e-15"
    listed = page.locator("section[aria-label='not applicable'] li")  # a cell is empty, and a phone shows no title
    assert listed.all_inner_texts() == [f"{twins[0].title} 12_pipeline: a pipeline always loops"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
