"""The lines of the front page: the worst first, a working tree above all, and each with its marks and nights."""

from typing import Any

from tasks.publish.site.case_lines import SHOWN_NIGHTS, list_lines, list_trees, read_marks
from tasks.publish.site.index import (
    IndexedCell,
    IndexedComparison,
    IndexedNight,
    StoreIndex,
    index_results,
)


def result(case: str, verdict: str, **more: Any) -> IndexedComparison:
    given = {
        "comparison": "main-vs-branch",
        "id": "-".join(map(str, (case, *more.values()))),
        "target": "cpu",
        "created": "2026-11-21",
        "headline": "h",
        "baseline": "main",
        "candidate": "feat/x",
    } | more
    return IndexedComparison(case=case, verdict=verdict, **given)  # type: ignore[arg-type]


def cases_of(index: StoreIndex) -> list[list[str]]:
    return [[line.item.case for line in lines] for lines in list_lines(index).values()]


def test_the_working_tree_is_first_then_the_worst() -> None:
    calm = [result(case, "same", candidate="calm") for case in "abc"]
    bad = [result("a", "same"), result("b", "changed"), result("c", "regressed"), result("d", "regressed", died=True)]
    tree = result("a", "same", candidate="your tree (a.py)", edited=True)
    index = index_results([*calm, *bad, tree])
    assert cases_of(index) == [["a"], ["d", "c", "b", "a"], ["a", "b", "c"]]
    assert list_trees(index) == [tree]


def test_only_the_newest_tree_of_a_case_stands_above() -> None:
    def edit(file: str, day: int, case: str, verdict: str) -> IndexedComparison:
        return result(case, verdict, candidate=f"your tree ({file})", edited=True, created=f"2026-11-{day}")

    old, new = edit("a.py", 20, "a", "regressed"), edit("b.py", 21, "a", "same")
    other = edit("a.py", 20, "b", "changed")
    assert list_trees(index_results([old, new, other])) == [other, new]


def test_a_line_names_the_outcome_before_if_it_was_another() -> None:
    found = [
        result("a", "same", created="2026-11-19"), result("a", "unknown", created="2026-11-20"), result("a", "same"),
        result("b", "same", created="2026-11-20"), result("b", "same"),
    ]  # fmt: skip
    (lines,) = list_lines(index_results(found)).values()
    assert [(line.item.case, line.before) for line in lines] == [("a", "unknown"), ("b", None)]


def test_nights_stand_in_the_line_of_the_pair_that_they_compared() -> None:
    by_night, by_hand = result("a", "regressed"), result("a", "same", candidate="feat/y")
    cell = IndexedCell(comparison="main-vs-branch", case="a", outcome="same")
    nights = [
        IndexedNight(id=str(day), target="cpu", ended=f"2026-11-{day:02}T03:00", headline="", cells=(cell,))
        for day in range(9, 0, -1)
    ]
    nights[0] = nights[0].replace(cells=(cell.replace(page=by_night.page),))
    nights[6] = nights[6].replace(cells=())  # of day 3
    elsewhere = nights[0].replace(id="x", target="tpu")
    index = index_results([by_night, by_hand]).replace(nights=(elsewhere, *nights))
    shown = {line.item.candidate: line.nights for lines in list_lines(index).values() for line in lines}
    assert shown["feat/y"] == ()
    assert [night.day for night in shown["feat/x"]] == [f"11-{day:02}" for day in range(10 - SHOWN_NIGHTS, 10)]
    assert [night.cell is None for night in shown["feat/x"]] == [True] + [False] * (SHOWN_NIGHTS - 1)


def test_marks_are_read_in_their_order_and_nothing_is_no_mark() -> None:
    assert read_marks(result("a", "same", marks="s-rcu")) == (
        ("program", "same"), ("function", None), ("time", "regressed"), ("memory", "changed"), ("loss", "unknown"),
    )  # fmt: skip
    assert {word for _, word in read_marks(result("a", "same"))} == {None}
