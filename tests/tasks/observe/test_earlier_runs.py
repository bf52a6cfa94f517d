"""The case of an earlier run that executed the lines which did not run."""

import json
from pathlib import Path

import pytest

from tasks.observe.earlier_runs import name_cases
from tasks.records.change import ChangeCoverage, UnseenLines
from tasks.records.plan import RunPlan
from tasks.store.store import open_store


def plan(trainer: str) -> RunPlan:
    return RunPlan.model_construct(trainer=trainer)


def leave_run(out: Path, case: str, lines: list[int], *, trainer: str = "maxview") -> None:
    folder = out / "runs" / case / "start"
    folder.mkdir(parents=True)
    (out / "runs" / case / "plan.json").write_text(json.dumps({"case": case, "trainer": trainer}))
    functions = {"loop.py": [["train", 10]], "evaluation.py": [["evaluate", 5]] if case == "13_eval" else []}
    found = {"lines": {"loop.py": lines}, "functions": functions, "ways": {}, "host": {}, "opened": [], "problem": ""}
    (folder / "ran-1.json").write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("unseen", "case"),
    [
        (UnseenLines(file="evaluation.py", first=9, last=9, function="evaluate"), "13_eval"),
        (UnseenLines(file="loop.py", first=25, last=25, function="train", offset=14), "13_eval"),  # one line further on
        (UnseenLines(file="loop.py", first=30, last=30, function="train", offset=19), ""),
        (UnseenLines(file="other.py", first=1, last=1, function="f"), ""),
    ],
)
def test_the_case_whose_run_executed_the_lines_is_named(tmp_path: Path, unseen: UnseenLines, case: str) -> None:
    leave_run(tmp_path, "01_base", [10, 11])
    leave_run(tmp_path, "13_eval", [10, 11, 24])
    coverage = ChangeCoverage(lines=1, files=1, unseen=(unseen,))
    found = name_cases(coverage, plan("maxview"), open_store(str(tmp_path)))
    assert found is not None
    assert found.unseen[0].case == case


def test_runs_of_another_trainer_name_no_case(tmp_path: Path) -> None:
    leave_run(tmp_path, "13_eval", [], trainer="maxtext")
    unseen = UnseenLines(file="evaluation.py", first=9, last=9, function="evaluate")
    found = name_cases(ChangeCoverage(unseen=(unseen,)), plan("maxview"), open_store(str(tmp_path)))
    assert found is not None
    assert found.unseen[0].case == ""
