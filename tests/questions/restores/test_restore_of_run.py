"""The restore of a run that has ended is checked: of our trainer in a case that resumes, of a custom one that saves."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from questions.restores.restore_matrix import RestoreCell, RestoreMatrix, describe_matrix
from questions.restores.restore_of_run import can_check, check_restore
from tasks.launch.backend import LaunchedRun
from tasks.records.plan import RunPlan
from tasks.records.restored import Restored, RestoredArray
from tasks.resolve.plans import Request, resolve
from tasks.store.store import Store


def ended(plan: RunPlan, out: Path, code: int = 0) -> LaunchedRun:
    """A run of the plan that has ended with the exit code."""
    directory = Store(out).run(plan.run_name).create()
    directory.log.write_text(f"completed step: 0, seconds: 1.0\nEXIT_CODE={code}\n")
    handle: Any = SimpleNamespace()
    return LaunchedRun(plan, directory, handle)


@pytest.mark.long
def test_our_trainer_restores_every_array_in_a_case_that_resumes(tmp_path: Path) -> None:
    request = Request(comparison="linen-vs-nnx", cases=("14_resume",), repeats=1)
    linen, _ = resolve(request, tmp_path)
    run = ended(linen, tmp_path)
    assert can_check(run)
    found = check_restore(run.plan)
    assert found is not None
    assert found.holds is True, found.summary
    assert {array.role for array in found.equal} == {"parameter", "optimizer", "counter"}


def test_a_run_that_failed_or_saves_nothing_is_not_started_again(
    make_plan: Callable[..., RunPlan], tmp_path: Path
) -> None:
    resumes = make_plan("raise SystemExit(1)", config={"steps": 3, "resume_after_step": 1})
    assert not can_check(ended(resumes, tmp_path, code=1))
    assert not can_check(ended(make_plan("", config={"steps": 3, "resume_after_step": -1}), tmp_path))
    assert not can_check(ended(make_plan("", trainer="command"), tmp_path))
    assert not can_check(ended(resumes.replace(repeat=1), tmp_path))


def test_a_matrix_counts_each_pair_and_a_versions_own_checkpoint_must_be_compared() -> None:
    whole = RestoredArray(name="w", role="parameter", word="equal", is_fault=False)
    zeros = RestoredArray(name="b", role="parameter", word="zeros")

    def matrix(*found: Restored) -> RestoreMatrix:
        names = [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]
        cells = tuple(
            RestoreCell(written_by=one, read_by=other, restored=restored)
            for (one, other), restored in zip(names, found, strict=True)
        )
        return RestoreMatrix(comparison="c", case="k", versions=("a", "b"), folder="/f", cells=cells)

    good, lost = Restored(source="s", arrays=(whole,)), Restored(source="s", arrays=(whole, zeros))
    refused = Restored(source="s", problem="KeyError: 'opt_state'")
    assert matrix(good, refused, refused, good).exit_status == 0
    assert matrix(good, refused, refused, refused).exit_status == 3
    assert matrix(good, lost, refused, good).exit_status == 1
    lines = describe_matrix(matrix(good, lost, refused, good), full=True)
    assert [line.split()[1:] for line in lines[1:3]] == [["✓", "✗"], ["–", "✓"]]
    assert any("b: zeros" in line for line in lines)
