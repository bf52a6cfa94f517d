"""The card: its verified items, its signature and its drawing."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.history.card_sources import add_source_digests, find_changes
from tasks.history.make_card import ITEMS, add_missing_cases, check_card, make_card
from tasks.publish.site.card_page import card_markdown, summarise, write_card_page
from tasks.records import ComparisonRecord, Floor
from tasks.records.proof_card import Card, CardItem, CardRow
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
    assert ", 1 of 18 cases compared, 17 never compared: same program in none;" in " ".join(summarise(card))
    assert "equal losses in 1;" in " ".join(summarise(card))
    text = card_markdown(card, {})
    assert text.count("**never compared**") == 17
    assert "\nmaxview compare linen-vs-nnx --case CASE --target cpu\n" in text
    assert card.signature in text
    page = write_card_page(card, {}, store).read_text()
    assert page.count("– never compared") == 17
    assert page.count("<script") == 1  # it sorts the tables


def test_the_limits_and_the_largest_differences_of_references_are_drawn(night: Night, store: Store) -> None:
    keep(night(1), store)
    check = {
        "case": "06_moe", "quantity": "loss", "limit": 1e-6, "commit": None, "day": "2026-11-02",
        "command": "pytest tests/references",
    }  # fmt: skip
    checks = [
        check | {"reference": "HF Mixtral, Linen", "difference": 1e-7},
        check | {"reference": "HF Mixtral, NNX", "difference": 2e-6},
    ]
    (store.path / "references").mkdir()
    (store.path / "references" / "hf.json").write_text(json.dumps(checks))
    card = make_card(store)
    assert states(row_of(card, "06_moe"))["outside references"] == "failed"
    text = card_markdown(card, {})
    assert "| HF Mixtral | 06_moe | loss 2.0e-06 (1e-06) | uncommitted changes | 2026-11-02 |" in text
    assert "- ✗ 06_moe, outside references: HF Mixtral, NNX: loss 2.0e-06 (limit 1e-06)\n" in text
    (store.path / "references" / "hf.json").write_text(json.dumps(checks[:1]))
    assert check_card(card, store) == ["06_moe: references/hf.json differs from the card's record"]


def test_a_new_case_is_drawn_as_never_compared(night: Night, store: Store) -> None:
    keep(night(1), store)
    card = make_card(store)
    older = card.model_copy(update={"rows": tuple(row for row in card.rows if row.case != "07_mla")})
    row = row_of(add_missing_cases(older), "07_mla")
    assert (row.verdict, set(states(row).values())) == ("not compared", {"not verified"})
    assert [row.case for row in add_missing_cases(older).rows] == [row.case for row in card.rows]


@pytest.fixture
def checkout(tmp_path: Path) -> tuple[Path, Callable[..., str]]:
    """A checkout with a module, a base config, two cases and a target."""
    root = tmp_path / "checkout"
    for name, text in {
        "model/layers.py": '"""Layers."""\nEPSILON = 1e-5\n',
        "configs/base.yml": "steps: 20\n",
        "configs/cases/01_base.yml": "{}\n",
        "configs/cases/06_moe.yml": "num_experts: 4\n",
        "configs/targets/cpu.yml": "devices: 1\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    def git(*words: str) -> str:
        names = ["-c", "user.name=A Nother", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", "-C", str(root), *names, *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    return root, git


def card_of_checkout(root: Path, sha: str) -> Card:
    """A card with two verified cases of a commit."""
    item = CardItem(name="same bits", state="verified", evidence="", sources=(sha,))
    rows = tuple(
        CardRow(
            comparison="linen-vs-nnx", case=case, target="cpu", device="1 × cpu", verdict="same", arms=("", ""),
            day="2026-11-02", command="", items=(item,), trainers=(f"maxview {sha[:9]}",),
        )
        for case in ("01_base", "06_moe")
    )  # fmt: skip
    return add_source_digests(Card(rows=rows), root)


def test_verified_items_whose_sources_changed_are_marked(checkout: Any) -> None:
    root, git = checkout
    card = card_of_checkout(root, git("rev-parse", "HEAD"))
    (root / "model/layers.py").write_text('"""Other words."""\n\nEPSILON = 1e-5  # as in Llama\n')
    (root / "configs/base.yml").write_text("# other words\nsteps:   20\n")
    (root / "model/compile").mkdir()
    (root / "model/compile/profile.py").write_text("SECONDS = 3\n")  # training cannot import it
    assert find_changes(card, root) == {}
    assert "(✓)" not in card_markdown(card, {}).partition("## ")[2]

    (root / "configs/cases/06_moe.yml").write_text("num_experts: 8\n")
    key = ("linen-vs-nnx", "06_moe", "cpu", "same bits")
    assert find_changes(card, root) == {key: ["configs/cases/06_moe.yml"]}
    text = card_markdown(card, find_changes(card, root))
    assert "| 01_base | ✓ |" in text
    assert "| 06_moe | (✓) |" in text
    assert "(✓) in 1 row: changed since: configs/cases/06_moe.yml" in text

    (root / "model/layers.py").write_text("EPSILON = 1e-6\n")
    (root / "model/mesh.py").write_text("")
    assert find_changes(card, root)[key] == ["configs/cases/06_moe.yml", "model/layers.py", "model/mesh.py"]


def test_references_of_several_commits_are_compared_with_each(checkout: Any) -> None:
    root, git = checkout
    shas = [git("rev-parse", "HEAD")]
    (root / "model/layers.py").write_text("EPSILON = 1e-6\n")
    git("commit", "-qam", "second")
    shas.append(git("rev-parse", "HEAD"))
    card = card_of_checkout(root, shas[1])
    assert find_changes(card, root) == {}
    rows = tuple(
        row.model_copy(update={"items": tuple(item.model_copy(update={"sources": tuple(shas)}) for item in row.items)})
        for row in card.rows
    )
    both = add_source_digests(card.model_copy(update={"rows": rows}), root)
    assert set(map(tuple, find_changes(both, root).values())) == {("model/layers.py",)}


def test_uncommitted_and_unknown_sources_count_as_changed(checkout: Any) -> None:
    root, _ = checkout
    for sha in ("uncommitted changes", "c0ffee1" * 5):
        assert set(map(tuple, find_changes(card_of_checkout(root, sha), root).values())) == {("uncommitted changes",)}


def test_maxtext_s_results_do_not_depend_on_our_sources(night: Night, store: Store, checkout: Any) -> None:
    record = night(1)
    keep(record, store)
    for log in (*record.baseline.logs, *record.candidate.logs):
        run = store.run_of_log(log).read_record()
        assert run is not None
        assert run.plan is not None
        plan = run.plan.model_copy(update={"trainer": "maxtext", "commit": None, "versions": {"maxtext": "0.2.4"}})
        store.run_of_log(log).write_record(run.model_copy(update={"plan": plan}))
    check = {
        "case": "06_moe", "reference": "HF Mixtral", "quantity": "loss", "difference": 1e-7, "limit": 1e-6,
        "commit": None, "day": "2026-11-02", "command": "pytest tests/references",
    }  # fmt: skip
    (store.path / "references").mkdir()
    (store.path / "references" / "hf.json").write_text(json.dumps([check]))
    card = make_card(store, root=checkout[0])
    assert card.sources == {}
    assert not any(row.checks for row in card.rows)
    assert find_changes(card, checkout[0]) == {}
    assert row_of(card, "01_base").trainers == ("maxtext 0.2.4",)
    assert "(linen and nnx of maxtext 0.2.4), 1 of 18 cases compared" in " ".join(summarise(card))
    (outside,) = [item for item in row_of(card, "01_base").items if item.name == "outside references"]
    assert outside.evidence == "tests/references compares maxview's own trainer only"
