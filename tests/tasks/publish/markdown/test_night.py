"""A night's summary: a complete matrix, inert text, and a comment that can be found again."""

import re
from typing import Any

import pytest

from tasks.diff.judge.compare_nights import find_twin_changes
from tasks.publish.markdown.night import comment_markdown, night_headline, night_markdown, night_message
from tasks.records.night import CellResult, NightCell, NightChange, NightPlan, NightRecord, NightTwins
from tests.wording.sentences import Wording

EVIL = "<script>alert(1)</script>|`x`\n# not a heading [a](https://evil.example) @channel <!channel>"


def night(*results: CellResult, **changes: Any) -> NightRecord:
    plan = NightPlan(
        id="2026-11-21", created="2026-11-21T03:00:00+00:00", target="cpu", slices=1, request="x",
        commits={"main-vs-branch": "a" * 40}, cells=tuple(result.cell for result in results),
    )  # fmt: skip
    return NightRecord(plan=plan, results=results, ended="2026-11-21T04:00:00+00:00", **changes)


def result(comparison: str, case: str, outcome: str, headline: str = "why", **cell: Any) -> CellResult:
    cell_ = NightCell(comparison=comparison, case=case, **cell)
    return CellResult(cell=cell_, outcome=outcome, headline=headline)  # type: ignore[arg-type]


RECORD = night(
    result("linen-vs-nnx", "01_base", "same", owner="all"),
    result("main-vs-branch", "01_base", "regressed", "slower by 8 %", owner="all"),
    result("linen-vs-nnx", "03_dropout", "failed", "LaunchError: no slice", owner="alice"),
    result("main-vs-branch", "03_dropout", "regressed", owner="alice", quarantine="known (until 2026-12-31)"),
)


def twins(outcome: str, *broken: str, **facts: Any) -> NightTwins:
    return NightTwins(comparison="main-vs-branch", outcome=outcome, headline="1 of 2 twins", broken=broken, **facts)  # type: ignore[arg-type]


def test_a_broken_twin_makes_a_night_bad_and_has_its_page_and_its_bisection(wording: Wording) -> None:
    same = result("linen-vs-nnx", "01_base", "same")
    broken = twins("another", "scan = unrolled · 01_base", page="/p/index.html", next="maxview bisect x --good `a`")
    record = night(same, twins=(broken,))
    assert record.is_bad
    assert night_headline(record).startswith("✗ twins of main-vs-branch ")
    wording("reasons", night_headline(record))
    section = night_markdown(record).split("## Twins")[1]
    assert "scan = unrolled" in section
    assert "/p/index.html" in section
    assert "next: `maxview bisect" in section
    assert not night(same, twins=(twins("same"), twins("unknown"))).is_bad


def test_a_change_of_twins_is_told_once() -> None:
    held, broke, more = twins("same"), twins("another", "a"), twins("another", "a", "b")
    told = [len(list(find_twin_changes(*both))) for both in (
        ([], [held]), ([], [broke]), ([held], [broke]), ([broke], [broke]), ([broke], [more]), ([broke], [held]),
        ([held], [twins("failed")]), ([held], [twins("unknown")]),
    )]  # fmt: skip
    assert told == [0, 1, 1, 0, 1, 1, 1, 0]


def test_the_matrix_has_every_cell() -> None:
    lines = night_markdown(RECORD).splitlines()
    assert r"| 01\_base | = same | **✗ regressed** | all |".replace("**", "") in lines
    assert r"| 03\_dropout | ✗ failed | (✗ regressed) | alice |" in lines
    assert lines[0] == "# ✗ 2 of 4 comparisons need a look"
    assert "same 1 · regressed 2 · failed 1" in lines


def test_important_results_come_first_and_quarantined_ones_apart() -> None:
    text = night_markdown(RECORD)
    look, rest = text.split("## Every case")
    assert look.count("\n- ") == 2
    assert "slower by 8 %" in look
    assert "no slice" in look
    assert "known (until 2026-12-31)" in rest.split("## In quarantine")[1]


@pytest.mark.parametrize(
    ("outcomes", "headline"),
    [
        (("same", "improved"), "✓ nothing regressed, 2 compared"),
        (("same", "unknown"), "? 1 of 2 comparisons are undecided"),
        (("failed", "unknown"), "✗ 1 of 2 comparisons need a look"),
    ],
)
def test_the_headline_is_one_line(outcomes: tuple[str, str], headline: str) -> None:
    assert night_headline(night(*(result("c", f"{n}", outcome) for n, outcome in enumerate(outcomes)))) == headline


def test_external_text_stays_text() -> None:
    record = night(
        result(EVIL, EVIL, "failed", EVIL, owner="@alice", quarantine=""),
        changes=(NightChange(kind="as stored", text=EVIL),),
    )
    shown = comment_markdown(record)
    assert "<script>" not in shown
    assert not re.search(r"(?<!\\)\]\(", shown)
    assert "https://" not in shown
    assert "@channel" not in shown
    assert "(@alice)" in shown  # the owner in the config is mentioned
    assert "\n# not" not in shown
    message = night_message(record)
    assert "<!channel>" not in message  # would notify everyone in Slack
    assert "&lt;!channel&gt;" in message


def test_a_message_is_sent_only_for_changes_and_has_limited_length() -> None:
    assert night_message(RECORD) == ""
    many = night(changes=tuple(NightChange(kind="as stored", text=f"c {n}: regressed") for n in range(300)))
    text = night_message(many)
    assert text.endswith("… and 280 more")
    assert len(text) < 8000


def test_a_comment_has_the_mark_by_which_it_is_replaced() -> None:
    first, second = (comment_markdown(record).splitlines()[0] for record in (RECORD, night()))
    assert first == second == "<!-- maxview:nightly -->"
