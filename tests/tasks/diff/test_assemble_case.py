"""A case is assembled with all that was recorded: for the flow, and for a command that has lost its server."""

from pathlib import Path
from typing import Any

import pytest

from tasks.diff.examine.assemble_case import CaseSteps, assemble_case
from tasks.diff.examine.examine_case import CaseRuns
from tasks.records.checkpoint_proof import CheckpointProof
from tasks.records.compared_checkpoints import CheckpointDifference
from tasks.records.explanation import ProgramExplanation
from tasks.records.log_reading import RunReading
from tasks.records.observation import PROGRAM
from tasks.records.plan import Commit, RunPlan
from tasks.records.run import RunRecord
from tasks.store.store import Store, open_store

DIFFERENCE = CheckpointDifference(step=1, path="a", other_path="b")


def make_run(arm: str, store: Store, *, saved: bool, program: bool, against: str = "") -> RunRecord:
    directory = store.run(f"{arm}-r0").create()
    plan: dict[str, Any] = {
        "comparison": "linen-vs-nnx", "case": "01_base", "arm": arm, "repeat": 0, "trainer": "maxview", "target": "cpu",
        "backend": "local", "config": {"steps": 2}, "origins": {}, "commit": "a" * 40, "dirty": False, "versions": {},
        "environment": {}, "argv": ("python",), "time_limit_s": 60, "run_name": f"{arm}-r0",
        "directory": str(directory.path), "identity": arm, "against": against,
        "commits": (Commit(sha="b" * 40, time="2026-01-01", author="x", subject=arm),),
    }  # fmt: skip
    if program:
        (directory.path / PROGRAM).write_bytes(b"")
    proof = CheckpointProof(step=1, path="c", ok=True, checks=("commit",), problems=())
    return RunRecord(
        plan=RunPlan(**plan), arm=arm, label=arm, commit=None, log=str(directory.log),
        reading=RunReading(name=arm, format="maxview"), proofs=(proof,) if saved else (),
    )  # fmt: skip


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("program", [True, False])
def test_a_case_has_what_its_runs_have(saved: bool, program: bool, tmp_path: Path) -> None:
    store, asked = open_store(tmp_path / "out"), []
    runs = [make_run(arm, store, saved=saved, program=program) for arm in ("linen", "nnx")]

    def compare_checkpoints(case: CaseRuns, _: Store) -> CheckpointDifference:
        asked.append(("checkpoints", len(case.runs)))
        return DIFFERENCE

    def compare_programs(case: CaseRuns, _: Store) -> ProgramExplanation | None:
        asked.append(("program", len(case.runs)))
        return None

    steps = CaseSteps(compare_checkpoints=compare_checkpoints, compare_programs=compare_programs)
    plans = [run.plan for run in runs if run.plan]
    case = assemble_case(plans, runs, store, cases=3, steps=steps)
    assert (case.comparison, case.case, case.target, case.cases) == ("linen-vs-nnx", "01_base", "cpu", 3)
    assert case.checkpoints == (DIFFERENCE if saved else None)
    assert [name for name, _ in asked] == ["checkpoints"] * saved + ["program"] * program
    assert {arm: commits[0].subject for arm, commits in case.commits.items()} == {"linen": "linen", "nnx": "nnx"}


def test_blessed_runs_come_first(tmp_path: Path) -> None:
    store = open_store(tmp_path / "out")
    blessed = make_run("linen", store, saved=False, program=False)
    run = make_run("nnx", store, saved=False, program=False, against="place/")

    def read(plan: RunPlan, _: Store, place: str) -> list[RunRecord]:
        assert (plan.arm, place) == ("nnx", "place/")
        return [blessed]

    assert run.plan is not None
    case = assemble_case([run.plan], [run], store, cases=1, steps=CaseSteps(read_blessed=read))
    assert case.runs == (blessed, run)
