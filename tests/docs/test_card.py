"""docs/card.md shows docs/card.json for the present sources, and the card claims nothing without evidence."""

from pathlib import Path

import pytest

from tasks.history.card_sources import PREFLIGHT, find_changes, read_sources
from tasks.history.make_card import OUTSIDE, add_missing_cases, sign
from tasks.publish.site.card_page import card_markdown
from tasks.records.proof_card import Card

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REDRAW = "uv run maxview card --from docs/card.json --markdown docs/card.md"


@pytest.fixture(scope="module")
def card() -> Card:
    return Card.model_validate_json((DOCS / "card.json").read_text(encoding="utf-8"))


def test_the_card_is_signed(card: Card) -> None:
    assert sign(card) == card.signature


def test_the_page_shows_the_card_for_the_present_sources(card: Card) -> None:
    whole = add_missing_cases(card)
    text = card_markdown(whole, find_changes(whole, ROOT))
    assert (DOCS / "card.md").read_text(encoding="utf-8") == text, f"docs/card.md is out of date; type: {REDRAW}"


def test_every_verified_item_has_the_digests_of_its_records(card: Card) -> None:
    for row in card.rows:
        kinds = [name.split("/")[0] for name in row.records]
        for item in row.items:
            if item.state == "verified" and item.name == OUTSIDE:
                assert all(check.difference <= check.limit for check in row.checks)
                assert row.checks
                assert "references" in kinds
            elif item.state == "verified":
                assert f"comparisons/{row.comparison}/{row.case}" in " ".join(row.records)
                assert item.name == PREFLIGHT or kinds.count("runs") >= 2


def test_the_digests_are_those_of_the_commits(card: Card) -> None:
    known = {sha: digests for sha in card.sources if (digests := read_sources(ROOT, sha))}
    if not known:
        pytest.skip("this checkout lacks the commits of the card")
    assert known == {sha: card.sources[sha] for sha in known}
