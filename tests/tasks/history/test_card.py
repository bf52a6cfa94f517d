"""The card: its verified items, its signature and its drawing."""

import json
from collections.abc import Callable

import pytest

from tasks.history.card import ITEMS, check_card, make_card
from tasks.publish.site.card_page import card_markdown, summarise, write_card_page
from tasks.records import ComparisonRecord, Floor
from tasks.records.card import Card, CardRow
from tasks.store import Store, StoreError

type Night = Callable[..., ComparisonRecord]


def keep(record: ComparisonRecord, store: Store, **changes: object) -> None:
    directory = store.comparison(record.comparison, record.case, record.id)
    directory.write_comparison(record.model_copy(update=changes))


def row_of(card: Card, case: str) -> CardRow:
    (row,) = [row for row in card.rows if row.case == case]
    return row


def states(row: CardRow) -> dict[str, str]:
    return {item.name: item.state for item in row.items}


def test_a_case_that_was_never_compared_is_not_verified(night: Night, store: Store) -> None:
    keep(night(1), store)
    row = row_of(make_card(store), "06_moe")
    assert (row.verdict, row.target) == ("not compared", "")
    assert set(states(row).values()) == {"not verified"}
    assert row.command == "maxview compare linen-vs-nnx --case 06_moe"


def test_floors_losses_and_references_are_taken_from_the_newest_records(night: Night, store: Store) -> None:
    floors = (
        Floor(name="same program", holds=True, evidence="one program"),
        Floor(name="same bits", holds=False, evidence="loss differs at step 3"),
    )
    keep(night(1), store)
    keep(night(2), store, floors=floors)
    check = {
        "case": "01_base", "reference": "HF Llama", "quantity": "loss", "difference": 3e-7, "limit": 1e-6,
        "commit": "c0ffee1", "day": "2026-11-02", "command": "pytest tests/references",
    }  # fmt: skip
    (store.path / "references").mkdir()
    (store.path / "references" / "llama.json").write_text(json.dumps([check]))
    row = row_of(make_card(store), "01_base")
    found = states(row)
    assert tuple(found) == ITEMS
    assert [found[name] for name in ("same program", "same bits", "same checkpoint", "equal losses")] == [
        "verified", "failed", "not verified", "verified",
    ]  # fmt: skip
    assert (found["outside references"], found["preflight"]) == ("verified", "not verified")
    (store.path / "references" / "llama.json").write_text(json.dumps([check | {"difference": 1e-3}]))
    assert states(row_of(make_card(store), "01_base"))["outside references"] == "failed"
    (store.path / "references" / "llama.json").write_text("[{}]")
    with pytest.raises(StoreError, match=r"llama\.json: is damaged"):
        make_card(store)


def test_an_edited_card_and_a_changed_record_are_found(night: Night, store: Store) -> None:
    record = night(1)
    keep(record, store)
    card = make_card(store)
    assert check_card(Card.model_validate_json(card.model_dump_json()), store) == []
    rows = tuple(row.model_copy(update={"verdict": "same"}) for row in card.rows)
    assert check_card(card.model_copy(update={"rows": rows}), store) == [
        "the signature does not match the content: it was edited"
    ]
    keep(record, store, headline="another one")
    (problem,) = check_card(card, store)
    assert problem.endswith("comparison.json differs from the card's record")
    store.run_of_log(record.candidate.logs[0]).record.unlink()
    assert any("record.json is not in" in line for line in check_card(card, store))


def test_the_card_is_drawn_with_missing_items(night: Night, store: Store) -> None:
    keep(night(1), store)
    card = make_card(store)
    assert "equal losses in 1 of 18" in summarise(card)
    text = card_markdown(card)
    assert text.count("– not trained") == 17
    assert card.signature in text
    page = write_card_page(card, store).read_text()
    assert page.count("– not trained") == 17
    assert "<script" not in page
