"""Examines the runs of one case (a model and its settings): findings, floors, coverage, and the needed experiments.

An arm is one of the two compared versions.
"""

from collections.abc import Iterator, Mapping, Sequence

from configs.extensions import find_functions
from configs.frozen import Frozen
from configs.verdict_rules import VerdictRules, load_verdict_rules
from tasks.diff.examine.arms import ArmRuns, Arms, curves_of, know_waits, numbered, summarise, times_of
from tasks.diff.examine.circumstances import Circumstances, chance_of
from tasks.diff.examine.comparability import find_findings
from tasks.diff.examine.data_differences import find_data
from tasks.diff.examine.evaluations import compare_evaluations
from tasks.diff.examine.examination import Examination, ExaminedRuns, Needed, Shown, Subject
from tasks.diff.examine.floors import excuse_of, floors_of, run_one_executable
from tasks.diff.examine.noise import Past
from tasks.diff.examine.page_id import comparison_id
from tasks.diff.examine.parity import compare_metric, number_alike, shared_metrics
from tasks.records.change import ChangeCoverage
from tasks.records.compared_checkpoints import CheckpointDifference
from tasks.records.explanation import ProgramExplanation
from tasks.records.plan import Commit
from tasks.records.run import RunRecord
from tasks.store.store import Store
from tasks.verify.saves import lives_of


class CaseRuns(Frozen):
    """All runs of one case of a comparison, in the order in which they ran."""

    comparison: str  # name of its file in configs/comparisons, or `ingest` for given logs
    case: str
    target: str  # name of the machine that the runs ran on
    runs: tuple[RunRecord, ...]  # of both arms
    cases: int = 1  # number of cases in the comparison, which share its chance of a false alarm
    look: int | None = None  # with --until-decided: the number of this decision on the case, from 1
    checkpoints: CheckpointDifference | None = None  # at the last step with a checkpoint in both first runs
    program: ProgramExplanation | None = None  # comparison of the lowered training steps; None if unknown
    coverage: ChangeCoverage | None = None  # which lines of the change the runs executed; None: no two checkouts
    rules: VerdictRules | None = None  # as stored when the runs were requested; None: read from configs/
    instead: str = ""  # the alternative to more runs, if only logs were given; else empty
    commits: dict[str, tuple[Commit, ...]] = {}  # name of the arm -> its commits that the other arm lacks


def examine(case: CaseRuns, past: Mapping[str, Past] | None = None) -> Examination:
    """Return what the runs of a case's two arms show; whether host loops are needed, `decide_one_executable` adds.

    past: name of a noisy metric's series -> differences of equal runs in the target's history.
    """
    rules = rules_of(case)
    given = _arms_of(case, rules)
    arms = number_alike(given)
    parities = tuple(compare_metric(arms, metric) for metric in shared_metrics(arms))
    evaluations = tuple(compare_evaluations(arms))
    compared = (*parities, *evaluations)
    aa = is_control(rules, case.runs)
    floors = floors_of(arms, case.program)
    excuse = excuse_of(arms, floors)
    code = {run.arm: run.plan.version for run in case.runs if run.plan is not None and run.plan.version is not None}
    examined = Examination(
        subject=Subject(
            id=comparison_id(case.comparison, case.case, [run for arm in given for run in arm.runs]),
            comparison=case.comparison, case=case.case, target=case.target, rules=rules, aa=aa, code=code,
            commits=case.commits,
        ),
        arms=arms,
        findings=tuple(
            find_findings(arms, declared=frozenset(rules.declared), effects=rules.effects, aa=aa, parities=compared)
        ),
        floors=tuple(floors),
        proved=run_one_executable(arms, floors),
        coverage=case.coverage,
        shown=Shown(
            baseline=summarise(arms[0]).replace(lives=lives_of(arms[0].runs, arms[1].runs)),
            candidate=summarise(arms[1]).replace(lives=lives_of(arms[1].runs, arms[0].runs)),
            curves=tuple(curve for arm in arms for curve in curves_of(arm, less_waits=know_waits(arms))),
            stalls={
                arm.name: tuple(numbered(stall, n) for n, run in enumerate(arm.runs) for stall in run.reading.stalls)
                for arm in arms
            },
            times=tuple(account for arm in arms for account in times_of(arm)),
            parities=tuple(item.parity for item in compared),
            divergence=parities[0].parity.first,
            checkpoints=case.checkpoints,
            equal_by_construction=excuse,
        ),
        runs=ExaminedRuns(
            parities=parities,
            evaluations=evaluations,
            checkpoints=case.checkpoints,
            circumstances=Circumstances(
                past=past or {}, chance=chance_of(cases=case.cases, look=case.look), excuse=excuse, instead=case.instead
            ),
        ),
    )  # fmt: skip
    if examined.shown.baseline.has_died or examined.shown.candidate.has_died:
        return examined
    return examined.replace(needed=frozenset(_list_needed(examined)))


def _list_needed(examined: Examination) -> Iterator[Needed]:
    """Yield the experiments that can change the verdict on runs that ended well.

    One executable takes one time and computes one function of equal data. Two programs with equal bits may differ at
    states that no run reached.
    """
    if not examined.proved:
        yield "time"
    other_data = _may_have_other_data(examined.arms)
    if examined.subject.aa or (examined.proved and not other_data):
        return
    holds = {floor.name: floor.holds for floor in examined.floors}
    differ = holds.get("same bits") is False or holds.get("same program") is False
    if differ or any(parity.different for parity in examined.shown.parities):
        yield "function"
        if other_data:
            yield "data"


def _may_have_other_data(arms: Arms) -> bool:
    """Return whether the digests of the arms' batches differ, or are unknown, in runs that may share no start."""
    data = find_data(arms, None)
    started = any(run.plan is not None and run.plan.start is not None for arm in arms for run in arm.runs)
    return data.kind != "equal" if data is not None else not started


def case_id(case: CaseRuns) -> str:
    """Return the id of the comparison of these runs."""
    return comparison_id(case.comparison, case.case, [run for arm in _arms_of(case) for run in arm.runs])


def rules_of(case: CaseRuns) -> VerdictRules:
    """Return the rules of the runs' request, else those of the configs."""
    return case.rules or load_verdict_rules(case.comparison, case.target)


def _arms_of(case: CaseRuns, rules: VerdictRules | None = None) -> Arms:
    left, right = (tuple(run for run in case.runs if run.arm == name) for name in (rules or rules_of(case)).arms)
    return tuple(ArmRuns(name=runs[0].arm, label=runs[0].label, runs=runs) for runs in (left, right))  # type: ignore[return-value]


def is_control(rules: VerdictRules, runs: Sequence[RunRecord]) -> bool:
    """Return whether the case is a control, whose arms should be equal: with --aa, or if neither arm sets anything."""
    declared = any(run.plan is not None and run.plan.aa for run in runs)
    return declared or (rules.alike and not any(run.plan and run.plan.software for run in runs))


def read_past_noise(case: CaseRuns, store: Store) -> dict[str, Past]:
    """Return level → differences of earlier equal runs on the case's target, as far as extensions have them."""
    return {level: past for read in find_functions("read_past") for level, past in read(case, store).items()}
