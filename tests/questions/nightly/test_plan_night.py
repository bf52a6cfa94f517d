"""A night is pinned to commits, resumes after a kill, and reports only changes since the previous night."""

import shutil
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from configs.errors import ConfigError
from configs.read import CONFIG_ROOT
from questions.nightly.plan_night import find_new_regressions, name_culprit, plan_night
from tasks.diff.judge.compare_nights import find_changes, finish_night
from tasks.records.night import CellResult, NightCell, NightPlan
from tasks.resolve.options import NightOptions
from tasks.resolve.plans import Request, resolve
from tasks.store.atomic import StoreError
from tasks.store.store import Store, open_store
from tests.wording.sentences import Wording

pytestmark = pytest.mark.flows

type Git = Callable[..., str]
DAY = date(2026, 11, 21)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "out")


@pytest.fixture
def plan(store: Store, repository: Path, tmp_path: Path) -> Callable[..., NightPlan]:
    """plan(day, baseline=…, **request): a night of main-vs-branch from the repository."""

    def run(day: date = DAY, *, baseline: str = "previous", branch: str = "main", **request: Any) -> NightPlan:
        config = tmp_path / "night.yml"
        config.write_text(
            "target: cpu\nslices: {cpu: 3}\ncomparisons:\n  - {name: linen-vs-nnx}\n"
            f"  - {{name: main-vs-branch, repository: {repository}, branch: {branch}, baseline: {baseline}}}\n"
            "quarantine: [{case: 03_dropout, why: known, until: 2026-11-21}]\n"
        )
        return plan_night(NightOptions(config=str(config), **request), store, day=day)

    return run


def finish(plan: NightPlan, store: Store, outcomes: Sequence[str] = ()) -> None:
    shown = [*outcomes, *["same"] * len(plan.cells)]
    results = [CellResult(cell=cell, outcome=shown[i], headline="h") for i, cell in enumerate(plan.cells)]  # type: ignore[arg-type]
    finish_night(plan, results, store)


def test_a_night_has_every_case_of_every_comparison(plan: Callable[..., NightPlan]) -> None:
    night = plan()
    assert (night.id, night.slices) == ("2026-11-21", 3)
    cells = [(cell.comparison, cell.case) for cell in night.cells]
    assert len(cells) == len(set(cells))
    assert {comparison for comparison, _ in cells} == {"linen-vs-nnx", "main-vs-branch"}
    assert len({case for _, case in cells}) == len(cells) / 2
    assert {cell.case for cell in night.cells if cell.quarantine} == {"03_dropout"}


def test_an_unfinished_night_resumes_with_the_same_commits(plan: Callable[..., NightPlan], run_git: Git) -> None:
    night = plan()
    run_git("commit", "-q", "--allow-empty", "-m", "merged at four in the morning")
    assert plan() == night
    assert plan(fresh=True).id == "2026-11-21.2"
    assert plan(cases=("01_base",)).id == "2026-11-21.3"  # another request
    assert plan(date(2026, 11, 22)).commits != night.commits  # the next night has the new commit


def test_a_night_keeps_the_rules_from_its_start(store: Store, tmp_path: Path) -> None:
    root = tmp_path / "configs"
    shutil.copytree(CONFIG_ROOT, root)
    wanted = NightOptions(comparisons=("linen-vs-nnx",), cases=("01_base",))
    before = plan_night(wanted, store, day=DAY, root=root).rules["linen-vs-nnx"]
    for path, old, new in (
        (
            root / "tolerances" / "default.yml",
            "program_memory_gb:  {relative: 0.001",
            "program_memory_gb: {relative: 0.5",
        ),
        (root / "noise.yml", "equal_runs: 0.10", "equal_runs: 0.9"),
        (
            root / "comparability" / "default.yml",
            "started-apart:                 {effect: note",
            "started-apart: {effect: blocks",
        ),
    ):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    gone_on = plan_night(wanted, store, day=DAY, root=root).rules["linen-vs-nnx"]
    assert gone_on == before
    fresh = plan_night(wanted.replace(fresh=True), store, day=DAY, root=root).rules["linen-vs-nnx"]
    assert (before.tolerances["program_memory_gb"].relative, fresh.tolerances["program_memory_gb"].relative) == (
        0.001,
        0.5,
    )
    assert (before.noises["cpu"].equal_runs, fresh.noises["cpu"].equal_runs) == (0.1, 0.9)
    assert (before.effects["started-apart"], fresh.effects["started-apart"]) == ("note", "blocks")
    plans = resolve(Request(comparison="linen-vs-nnx", rules=gone_on), tmp_path / "out", root=root)
    assert all(plan.rules == before for plan in plans)


def test_a_night_against_blessed_runs_names_them_in_every_cell_of_that_comparison(
    plan: Callable[..., NightPlan],
) -> None:
    night = plan(baseline="blessed")
    assert {(cell.comparison, cell.blessed) for cell in night.cells} == {
        ("linen-vs-nnx", False), ("main-vs-branch", True),
    }  # fmt: skip


def test_a_finished_night_is_not_resumed(plan: Callable[..., NightPlan], store: Store) -> None:
    night = plan()
    finish(night, store)
    assert plan().id == "2026-11-21.2"


def test_the_next_night_starts_from_the_commit_of_the_last(
    plan: Callable[..., NightPlan], store: Store, run_git: Git
) -> None:
    first = plan()
    arms = next(cell.arms for cell in first.cells if cell.comparison == "main-vs-branch")
    assert arms.aa  # no previous night: a control
    finish(first, store)
    unchanged = plan(date(2026, 11, 22))
    assert next(cell.arms for cell in unchanged.cells if cell.comparison == "main-vs-branch").aa
    finish(unchanged, store)
    before = run_git("rev-parse", "main")
    run_git("commit", "-q", "--allow-empty", "-m", "a day's work")
    arms = next(cell.arms for cell in plan(date(2026, 11, 23)).cells if cell.comparison == "main-vs-branch")
    assert not arms.aa
    assert str(arms.baseline).endswith(before)
    assert str(arms.branch).endswith(run_git("rev-parse", "main"))


def test_problems_are_reported_before_anything_is_written(plan: Callable[..., NightPlan], store: Store) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(branch="no/such", cases=("dropout",), target="cpus")
    assert len(caught.value.problems) == 3
    assert not list(store.files.entries())


def test_an_invalid_name_is_refused_with_an_example(plan: Callable[..., NightPlan], wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(comparisons=("a b/../c", "linen-vs-nn"))
    first, second = caught.value.problems
    assert first.startswith("unknown comparison 'a b/../c'; ")
    assert "there are: linen-vs-nnx, main-vs-branch" in first
    assert "'linen-vs-nn' (did you mean 'linen-vs-nnx'?)" in second
    wording("errors", first.partition("there are: ")[0])


def test_a_damaged_record_is_named(plan: Callable[..., NightPlan], store: Store) -> None:
    store.files.write("nightly/2026-11-20/record.json", b"{")
    with pytest.raises(StoreError, match=r"2026-11-20/record\.json.*remove it"):
        plan()


def result(case: str, outcome: str, **cell: Any) -> CellResult:
    return CellResult(cell=NightCell(comparison="c", case=case, **cell), outcome=outcome, headline="why")  # type: ignore[arg-type]


def test_only_changed_outcomes_are_reported() -> None:
    before = [result("a", "regressed"), result("b", "same"), result("c", "failed"), result("d", "same")]
    now = [
        result("a", "regressed"),  # already known
        result("b", "regressed", owner="bob"),
        result("c", "same"),
        result("d", "unknown"),  # not reported: no action is needed
        result("e", "failed"),
        result("f", "regressed", quarantine="known"),
        result("g", "same"),
        result("h", "regressed").replace(died=True),
    ]
    assert [change.line for change in find_changes(before, now)] == [
        "c b (bob): regressed, was same: why",
        "c c: same, was failed: why",
        "c e: failed, is new: why",
        "c h: died, is new: why",
    ]
    assert list(find_changes(now, now)) == []


def test_only_new_regressions_between_two_commits_are_bisected(
    plan: Callable[..., NightPlan], store: Store, run_git: Git
) -> None:
    finish(plan(), store)
    control = [CellResult(cell=cell, outcome="regressed", headline="h") for cell in plan(date(2026, 11, 22)).cells]
    assert find_new_regressions(plan(date(2026, 11, 22)), control, store) == []  # one commit, or arms without refs
    run_git("commit", "-q", "--allow-empty", "-m", "a day's work")
    night = plan(date(2026, 11, 23))
    cells = [cell for cell in night.cells if cell.comparison == "main-vs-branch"]
    outcomes = ["same", "regressed", *["unknown"] * (len(cells) - 2)]
    results = [CellResult(cell=cell, outcome=word, headline="h") for cell, word in zip(cells, outcomes, strict=True)]  # type: ignore[arg-type]
    assert [one.cell.case for one in find_new_regressions(night, results, store)] == [cells[1].case]
    found = name_culprit(cells[1], "1b5e4eb5a is the first commit")
    record = finish_night(night, results, store, [found])
    assert record.changes[-1] == found
    assert found.line.startswith(f"main-vs-branch {cells[1].case}: ")
    # a regression of the night before is not reported again
    tomorrow = plan(date(2026, 11, 24))
    again = [one.replace(cell=one.cell.replace(arms=cells[1].arms)) for one in results]
    assert find_new_regressions(tomorrow, again, store) == []


def test_a_night_does_more_only_if_its_file_says_so(
    plan: Callable[..., NightPlan], tmp_path: Path, store: Store
) -> None:
    assert plan().bisect_budget_s is None
    config = tmp_path / "auto.yml"
    config.write_text("target: cpu\ncomparisons: [{name: linen-vs-nnx}]\nbisect: auto\nbisect_budget: 30m\n")
    night = plan_night(NightOptions(config=str(config)), store, day=date(2026, 11, 25))
    assert night.bisect_budget_s == 1800
    assert not night.invariants
    assert night.decide_budget_s is None
    config.write_text("target: cpu\ncomparisons: [{name: linen-vs-nnx}]\ninvariants: auto\nuntil_decided: 5m\n")
    night = plan_night(NightOptions(config=str(config)), store, day=date(2026, 11, 26))
    assert (night.invariants, night.decide_budget_s) == (True, 300)
    config.write_text("target: cpu\ncomparisons: [{name: linen-vs-nnx}]\nbisect: auto\nbisect_budget: soon\n")
    with pytest.raises(ConfigError, match="type for example 90s"):
        plan_night(NightOptions(config=str(config)), store, day=date(2026, 11, 27))
