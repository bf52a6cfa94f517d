"""The runs of one case, compared by the rules in their request."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from configs.comparison import load_comparison
from configs.verdict_rules import Group, Tolerance, load_verdict_rules
from tasks.diff.examine.circumstances import CHANCE, chance_of
from tasks.diff.examine.examine_case import CaseRuns, examine
from tasks.diff.judge.judge_case import judge
from tasks.diff.judge.one_executable import decide_one_executable
from tasks.records.compared_case import ComparisonRecord
from tasks.records.plan import CodeVersion, RunPlan
from tasks.records.run import RunRecord
from tasks.resolve.plans import Request, resolve
from tests.wording.sentences import Wording

type MakeRun = Callable[..., RunRecord]

LOSSES = (9.0, 8.5, 8.1, 7.9, 7.5, 7.3)
EVEN, SLOWER = (3.0, *[0.1] * 5), (3.0, *[0.103] * 5)
SAME_PROGRAM = {"program": {"stablehlo_sha256": "f00d" * 16}}


def compare(*runs: RunRecord) -> ComparisonRecord:
    return judge(examine(CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=runs)))


@pytest.fixture
def pair(make_run: MakeRun) -> Callable[..., list[RunRecord]]:
    def build(repeat: int = 0, **more: Any) -> list[RunRecord]:
        return [make_run(arm, plan={}, repeat=repeat, **more) for arm in ("linen", "nnx")]

    return build


def test_runs_find_their_arm_in_any_order(pair: Callable[..., list[RunRecord]]) -> None:
    runs = [run for repeat in range(3) for run in pair(repeat)]
    record = compare(*reversed(runs))
    assert (record.baseline.name, record.candidate.name) == ("linen", "nnx")
    assert (len(record.baseline.runs), len(record.candidate.runs)) == (3, 3)
    assert record.question == load_comparison("linen-vs-nnx").question


def test_trainer_and_keys_of_the_arms_are_in_the_rules() -> None:
    rules = load_verdict_rules("linen-vs-nnx", "cpu")
    assert rules.arms == ("linen", "nnx")
    assert (set(rules.declared), rules.alike) == ({"pure_nnx"}, False)


def test_a_declared_difference_is_not_a_finding(pair: Callable[..., list[RunRecord]]) -> None:
    assert compare(*pair()).findings == ()  # though pure_nnx differs


def test_cases_and_looks_share_the_chance_of_a_false_alarm(
    pair: Callable[..., list[RunRecord]], make_run: MakeRun
) -> None:
    case = CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=tuple(pair()), cases=5, look=2)
    share = chance_of(cases=case.cases, look=case.look)
    assert share == pytest.approx(CHANCE / 5 / 6)
    # 3 % in one run of each, where equal runs differ by 0.4 %: p = 2e-5, and steady steps have two thirds of the chance
    slow = [make_run("nnx", plan={}, seconds=SLOWER), make_run("linen", plan={}, seconds=EVEN)]
    words = []
    for cases in (1, 1000):
        record = judge(examine(case.replace(runs=tuple(slow), cases=cases, look=None)))
        words += [row.verdict for row in record.rows if row.metric == "step_time_s"]
    assert words == ["regressed", "unknown"]


@pytest.mark.parametrize(
    ("seconds", "cases", "needed"), [(EVEN, 1, set()), (SLOWER, 1, {"host"}), (SLOWER, 1000, {"host"})]
)
def test_host_loops_are_needed_where_one_program_has_an_undecided_time(
    make_run: MakeRun, seconds: list[float], cases: int, needed: set[str]
) -> None:
    # 3 % in one run of each: decided at a chance of 1 %, not at a thousandth of it; a single run may be disturbed
    runs = tuple(
        make_run(arm, plan={}, seconds=of_arm, record=SAME_PROGRAM)
        for arm, of_arm in (("linen", EVEN), ("nnx", seconds))
    )
    case = CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=runs, cases=cases)
    examined = decide_one_executable(examine(case))
    assert examined.needed == needed
    assert examined.decided is not None
    assert judge(examined).rows == judge(examine(case)).rows


def test_resolved_rules_survive_an_edited_file(pair: Callable[..., list[RunRecord]], tmp_path: Path) -> None:
    (plan, *_) = resolve(Request(comparison="linen-vs-nnx"), tmp_path)
    assert plan.rules is not None
    assert plan.rules == load_verdict_rules("linen-vs-nnx", plan.target)
    back = RunPlan.model_validate_json(plan.model_dump_json())  # as stored
    assert back.rules == plan.rules
    # a comparison keeps the rules from the time of its request
    tolerances = dict(plan.rules.tolerances) | {"step_time_s": Tolerance(relative=0.5, why="then")}
    then = plan.rules.replace(question="Then?", tolerances=tolerances)
    case = CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=tuple(pair()), rules=then)
    record = judge(examine(case))
    (row,) = [row for row in record.rows if row.metric == "step_time_s"]
    assert (record.question, row.threshold_text) == ("Then?", "±50 %")


def test_settings_without_effect_are_frozen_with_the_request(
    make_run: MakeRun, tmp_path: Path, wording: Wording
) -> None:
    (plan, *_) = resolve(Request(comparison="linen-vs-nnx"), tmp_path)
    assert plan.rules is not None
    then = plan.rules.inert.replace(inert=(Group(why="then", names=("learning_rate",)),))
    rules = plan.rules.replace(inert=then)
    runs = [
        make_run(arm, plan={"rules": rules, "config": {"pure_nnx": arm == "nnx", "learning_rate": rate}})
        for arm, rate in (("linen", 0.1), ("nnx", 0.2))
    ]
    case = CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=tuple(runs), rules=rules)
    found = {finding.kind: finding.message for finding in judge(examine(case)).findings}
    assert "learning_rate" in found["inert"]
    assert found["inert"].endswith(": then")
    wording("findings", found["inert"])


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({}, ""),
        ({"read": 0}, " (no file that the trainer reads differs between the two)"),
        ({"read": 0, "different": ()}, " (no file differs between the two)"),
        ({"sha": "1" * 40}, " (main and feature are one commit)"),
        ({"different": None, "read": None}, ""),  # at a remote address nothing is known
    ],
)
def test_the_headline_says_that_the_code_does_not_differ(make_run: MakeRun, change: dict[str, Any], note: str) -> None:
    main = CodeVersion(name="main", sha="1" * 40, subject="", different=("docs/a.md", "model/b.py"), read=1)
    versions = {"linen": main, "nnx": main.replace(**({"name": "feature", "sha": "2" * 40} | change))}
    record = compare(*(make_run(arm, plan={"version": version}) for arm, version in versions.items()))
    assert record.code == versions
    plain = compare(*(make_run(arm, plan={}) for arm in versions))
    assert record.headline == f"{plain.headline}{note}"


@pytest.mark.parametrize(
    ("jaxlib", "flags", "differ"), [("0.12.0", "", False), ("0.11.2", "", True), ("0.12.0", "-O0", True)]
)
def test_one_program_of_two_compilers_may_differ_in_time_and_bits(
    make_run: MakeRun, jaxlib: str, flags: str, differ: bool
) -> None:
    digests = {"batch_digest": [1] * len(LOSSES), "batch_rows_digest": [2] * len(LOSSES)}

    def run(arm: str, losses: list[float], **more: Any) -> RunRecord:
        table = {"step": range(len(losses)), "loss": losses, "step_time_s": [0.1] * len(losses), **digests}
        return make_run(arm, losses=losses, record={**SAME_PROGRAM, "metrics": pl.DataFrame(table)}, **more)

    linen = run("linen", list(LOSSES), plan={})
    software = linen.reading.environment.replace(jax=jaxlib, jaxlib=jaxlib)
    plan = {"environment": {"XLA_FLAGS": flags}} if flags else {}
    losses = [loss + 1e-3 for loss in LOSSES]
    nnx = run("nnx", losses, plan=plan, reading={"environment": software})
    case = CaseRuns(comparison="linen-vs-nnx", case="01_base", target="cpu", runs=(linen, nnx))
    needed = examine(case).needed
    assert ("time" in needed, "function" in needed) == (differ, differ)
    digests["batch_digest"] = [3] * len(LOSSES)  # one program on data in another order: is it rounding?
    case = case.replace(runs=(linen, run("nnx", losses, plan=plan, reading={"environment": software})))
    assert {"function", "data"} <= examine(case).needed
