"""The runs of one case, compared as their comparison's file says, and the command that comes next."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from configs.comparison import Tolerance, load_comparison
from configs.verdict_rules import load_verdict_rules
from tasks.diff.case import CaseRuns, compare_case, wishes_of
from tasks.diff.decide_noisy import CHANCE, chance_of
from tasks.diff.until import undecided_rows
from tasks.records import ComparisonRecord, RunPlan, RunRecord
from tasks.resolve.plans import Request, resolve

type MakeRun = Callable[..., RunRecord]

EVEN, SLOWER = (3.0, *[0.1] * 5), (3.0, *[0.103] * 5)
SAME_PROGRAM = {"program": {"stablehlo_sha256": "f00d" * 16}}


def compare(*runs: RunRecord) -> ComparisonRecord:
    return compare_case(CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=runs))


@pytest.fixture
def pair(make_run: MakeRun) -> Callable[..., list[RunRecord]]:
    def build(repeat: int = 0, **more: Any) -> list[RunRecord]:
        return [make_run(arm, plan={}, repeat=repeat, **more) for arm in ("linen", "nnx")]

    return build


def test_runs_find_their_arm_however_they_are_ordered(pair: Callable[..., list[RunRecord]]) -> None:
    runs = [run for repeat in range(3) for run in pair(repeat)]
    record = compare(*reversed(runs))
    assert (record.baseline.name, record.candidate.name) == ("linen", "nnx")
    assert (len(record.baseline.runs), len(record.candidate.runs)) == (3, 3)
    assert record.question == load_comparison("linen-vs-nnx").question


def test_what_the_arms_set_is_declared() -> None:
    rules = load_verdict_rules("linen-vs-nnx", "cpu")
    assert (set(rules.declared), rules.alike) == ({"pure_nnx"}, False)


def test_a_declared_difference_is_no_finding(pair: Callable[..., list[RunRecord]]) -> None:
    assert compare(*pair()).findings == ()  # though pure_nnx differs


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # nothing differs: look at the other cases
        ({}, "maxview compare linen-vs-nnx --case all --target cpu --out /out"),
        # not comparable: read the log
        ({"losses": (9.0, 8.0), "reading": {"exit_code": 1}}, "maxview scrape /out/runs/nnx-r0/log.txt"),
    ],
)
def test_the_next_command(more: dict[str, Any], expected: str, pair: Callable[..., list[RunRecord]]) -> None:
    assert compare(*pair(**more)).next_command == expected


def test_the_next_command_after_a_dead_baseline_reads_its_log(make_run: MakeRun, died: Mapping[str, Any]) -> None:
    record = compare(make_run("linen", plan={}, losses=(), reading=died), make_run("nnx", plan={}))
    assert record.next_command == "maxview scrape /out/runs/linen-r0/log.txt"


def test_what_is_not_clear_asks_for_as_many_repeats_as_the_noise_says(make_run: MakeRun) -> None:
    runs = []
    for repeat, slow in enumerate((1.2, 1.2, 0.9)):
        runs.append(make_run("linen", seconds=(3.0, 1.0, 1.0), losses=(9.0, 8.0, 7.0), plan={}, repeat=repeat))
        runs.append(make_run("nnx", seconds=(3.0, slow, slow), losses=(9.0, 8.0, 7.0), plan={}, repeat=repeat))
    record = compare(*runs)
    (row,) = undecided_rows(record)
    assert row.runs_wanted is not None
    assert row.runs_wanted > 3
    assert record.next_command.endswith(f"--repeats {row.runs_wanted}")


def test_cases_and_looks_share_the_chance_of_a_false_alarm(
    pair: Callable[..., list[RunRecord]], make_run: MakeRun
) -> None:
    case = CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=tuple(pair()), cases=5, look=2)
    share = chance_of(cases=case.cases, look=case.look)
    assert share == pytest.approx(CHANCE / 5 / 6)
    # 3 % in one run of each, where equal runs differ by 0.4 %: p = 2e-5, and each of two levels has half of the chance
    slow = [make_run("nnx", plan={}, seconds=SLOWER), make_run("linen", plan={}, seconds=EVEN)]
    words = []
    for cases in (1, 1000):
        record = compare_case(case.model_copy(update={"runs": tuple(slow), "cases": cases, "look": None}))
        words += [row.verdict for row in record.rows if row.metric == "step_time_s"]
    assert words == ["regressed", "unknown"]


def test_rules_that_were_resolved_survive_an_edited_file(pair: Callable[..., list[RunRecord]], tmp_path: Path) -> None:
    (plan, *_) = resolve(Request(comparison="linen-vs-nnx"), tmp_path)
    assert plan.rules is not None
    assert plan.rules == load_verdict_rules("linen-vs-nnx", plan.target)
    back = RunPlan.model_validate_json(plan.model_dump_json())  # as the store keeps it
    assert back.rules == plan.rules
    # whoever asked before the file was edited is answered by what it said then
    tolerances = dict(plan.rules.tolerances) | {"step_time_s": Tolerance(relative=0.5, why="then")}
    then = plan.rules.model_copy(update={"question": "Then?", "tolerances": tolerances})
    case = CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=tuple(pair()), rules=then)
    record = compare_case(case)
    (row,) = [row for row in record.rows if row.metric == "step_time_s"]
    assert (record.question, row.threshold_text) == ("Then?", "±50 %")


# ---------------------------------------------------------------- the wishes of a plan


def plan_of(out: Path, **changes: Any) -> RunPlan:
    return resolve(Request(comparison="linen-vs-nnx", **changes), out)[0]


def test_wishes_that_were_not_made_are_not_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert wishes_of(plan_of(Path("maxview-out"))) == []


def test_the_wishes_of_a_plan_make_the_same_plan_again(tmp_path: Path) -> None:
    overrides = ("steps=7", "dtype=float32", "learning_rate=0.001", "log_config=false")
    plan = plan_of(tmp_path / "my out", model="seed-1b", overrides=overrides)
    words = wishes_of(plan)
    assert words == [
        "--model", "seed-1b", "--set", "steps=7", "--set", "log_config=false", "--set", "dtype=float32",
        "--set", "learning_rate=0.001", "--out", str(tmp_path / "my out"),
    ]  # fmt: skip
    again = tuple(word for option, word in pairwise(words) if option == "--set")
    assert plan_of(tmp_path / "my out", model="seed-1b", overrides=again) == plan
