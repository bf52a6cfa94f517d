"""Gathers the runs of one case into its two arms and compares them by the rules that came with their plans."""

from collections.abc import Mapping, Sequence

from configs.schema import Frozen
from configs.verdict_rules import VerdictRules, load_verdict_rules
from tasks.diff.comparison import comparison_id, diff
from tasks.diff.decide_noisy import chance_of
from tasks.diff.noise import Past
from tasks.diff.time_rows import Circumstances
from tasks.records import CheckpointDifference, Commit, ComparisonRecord, ProgramExplanation, RunRecord


class CaseRuns(Frozen):
    """Every run of one case of a comparison, in the order they ran."""

    comparison: str
    case: str
    target: str
    runs: tuple[RunRecord, ...]
    cases: int = 1  # of the comparison, which share its chance of a false alarm
    look: int | None = None  # the n-th, of a comparison that goes on until it is decided
    checkpoints: CheckpointDifference | None = None  # of the last step that the first run of each arm has
    program: ProgramExplanation | None = None  # the steps that the runs left, compared; None: nothing to compare
    rules: VerdictRules | None = None  # of the request; None: as the comparison's files say now
    commits: dict[str, tuple[Commit, ...]] = {}  # arm -> those that the other arm's commit lacks


def compare_case(case: CaseRuns, *, past: Mapping[str, Past] | None = None) -> ComparisonRecord:
    """The comparison of a case's two arms.

    `past`: what equal runs on the target differed by, of each noisy metric that the history knows.
    """
    rules = _rules_of(case)
    baseline, candidate = _sides(case, rules)
    record = diff(
        baseline,
        candidate,
        comparison=case.comparison,
        case=case.case,
        target=case.target,
        rules=rules,
        aa=is_control(rules, case.runs),
        given=Circumstances(past=past or {}, chance=chance_of(cases=case.cases, look=case.look)),
        checkpoints=case.checkpoints,
        program=case.program,
    )
    return record.model_copy(update={"commits": case.commits})


def case_id(case: CaseRuns) -> str:
    """The id that the comparison of these runs has, or will have."""
    baseline, candidate = _sides(case, _rules_of(case))
    return comparison_id(case.comparison, case.case, [*baseline, *candidate])


def _rules_of(case: CaseRuns) -> VerdictRules:
    return case.rules or load_verdict_rules(case.comparison, case.target)


def _sides(case: CaseRuns, rules: VerdictRules) -> list[list[RunRecord]]:
    """The runs of the baseline, and those of the candidate."""
    return [[run for run in case.runs if run.arm == name] for name in rules.arms]


def is_control(rules: VerdictRules, runs: Sequence[RunRecord]) -> bool:
    """Whether the two arms are meant to be the same, to measure the noise: declared so, or because they set nothing."""
    declared = any(run.plan is not None and run.plan.aa for run in runs)
    return declared or (rules.alike and not any(run.plan and run.plan.software for run in runs))
