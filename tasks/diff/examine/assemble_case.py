"""Assembles a case for its comparison: plans and finished runs → `CaseRuns`, with all that is compared beside the runs.

An arm is one of the two compared versions. A case is a set of config values that both arms share.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tasks.diff.examine.cover_change import cover_runs
from tasks.diff.examine.examine_case import CaseRuns, case_id
from tasks.observe.earlier_runs import name_cases
from tasks.programs.kept_programs import compare_kept_programs, have_programs
from tasks.records.compared_checkpoints import CheckpointDifference
from tasks.records.explanation import ProgramExplanation
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.resolve.blessed import blessed_runs
from tasks.store.store import Store
from tasks.verify.compare_checkpoints import compare_arms, find_common, find_frozen
from tasks.verify.verification import Progress


def compare_saved(runs: CaseRuns, store: Store, on_progress: Progress | None = None) -> CheckpointDifference | None:
    """Compare the checkpoints of the arms' first runs at the last step that is verified in both; None without one.

    Reuses a stored result of the same two saves.
    """
    before = store.comparison(runs.comparison, runs.case, case_id(runs)).read_comparison()
    return compare_arms(runs.runs, store, known=before.checkpoints if before else None, on_progress=on_progress)


def compare_kept(runs: CaseRuns, store: Store) -> ProgramExplanation | None:
    """Compare the lowered training steps that the runs kept; None if there are no two, or if one is unreadable."""
    return compare_kept_programs(runs.runs, store)


class CaseSteps(NamedTuple):
    """The functions that read and compare a case's stored data; a flow gives their tracked forms."""

    read_blessed: Callable[[RunPlan, Store, str], list[RunRecord]] = blessed_runs
    compare_checkpoints: Callable[[CaseRuns, Store], CheckpointDifference | None] = compare_saved
    compare_programs: Callable[[CaseRuns, Store], ProgramExplanation | None] = compare_kept


def assemble_case(
    plans: Sequence[RunPlan], runs: Sequence[RunRecord], store: Store, *, cases: int, steps: CaseSteps | None = None
) -> CaseRuns:
    """Return the case of these plans and their finished runs, complete; blessed runs come first.

    cases: the number of cases compared together.
    """
    steps, plan = steps or CaseSteps(), plans[0]
    blessed = steps.read_blessed(plan, store, plan.against) if plan.against else []
    case = CaseRuns(
        comparison=plan.comparison,
        case=plan.case,
        target=plan.target,
        runs=(*blessed, *runs),
        cases=cases,
        rules=plan.rules,
        commits={one.arm: one.commits for one in plans if one.commits},
    )
    return complete_case(case, store, steps)


def complete_case(case: CaseRuns, store: Store, steps: CaseSteps | None = None) -> CaseRuns:
    """Return the case with the comparisons of its checkpoints and of its lowered steps, where there are two."""
    steps = steps or CaseSteps()
    checkpoints = steps.compare_checkpoints(case, store) if find_common(case.runs) else None
    program = steps.compare_programs(case, store) if have_programs(case.runs, store) else None
    coverage, plan = cover_runs(case.runs), next((run.plan for run in case.runs if run.plan is not None), None)
    coverage = name_cases(coverage, plan, store) if plan is not None else coverage
    runs = case.runs if checkpoints is None or checkpoints.equal else with_frozen(case.runs, store)
    changes = {"checkpoints": checkpoints, "program": program, "coverage": coverage, "runs": runs}
    return case.replace(**changes)


def with_frozen(runs: Sequence[RunRecord], store: Store) -> tuple[RunRecord, ...]:
    """Return the runs; if no digests tell what both arms trained, each arm's first run has its `frozen` parameters.

    Unchanged if the arms' checkpoints name their parameters differently.
    """
    sides = find_common(runs)
    if sides is None or any(run.program.get("state") for run, _ in sides):
        return tuple(runs)
    left, right = (find_frozen(run, store) for run, _ in sides)
    if left is None or right is None or left[1] != right[1]:
        return tuple(runs)
    known = {id(run): frozen for (run, _), (frozen, _) in zip(sides, (left, right), strict=True)}
    return tuple(run.replace(frozen=known[id(run)]) if id(run) in known else run for run in runs)
