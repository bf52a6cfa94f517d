"""Compares the two arms (compared versions) of one case (a model and its settings) by the rules of its comparison."""

from collections.abc import Mapping, Sequence

from configs.extensions import find_functions
from configs.frozen import Frozen
from configs.verdict_rules import VerdictRules, load_verdict_rules
from tasks.diff.arms import ArmRuns, Arms
from tasks.diff.compare_runs import comparison_id, diff
from tasks.diff.data_rows import find_data
from tasks.diff.decide_noisy import chance_of
from tasks.diff.floors import run_one_executable
from tasks.diff.noise import Past
from tasks.diff.time_rows import Circumstances
from tasks.metrics.time_metrics import CPU_TIME, STEP_TIME
from tasks.records.change import ChangeCoverage
from tasks.records.compared_case import ComparisonRecord
from tasks.records.compared_checkpoints import CheckpointDifference
from tasks.records.data import DataComparison
from tasks.records.explanation import ProgramExplanation
from tasks.records.function import FunctionComparison
from tasks.records.host_times import HostTimes
from tasks.records.plan import CodeVersion, Commit
from tasks.records.program_times import ProgramTimes
from tasks.records.run import RunRecord
from tasks.store.store import Store


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
    turns: ProgramTimes | None = None  # step times of both programs in turns; None: not tried
    host: HostTimes | None = None  # both host loops without their program; None: not tried
    function: FunctionComparison | None = None  # whether the steps compute one function; None: not tried
    coverage: ChangeCoverage | None = None  # which lines of the change the runs executed; None: no two checkouts
    data: DataComparison | None = None  # the batches of both recorded steps; None: not tried
    rules: VerdictRules | None = None  # as stored when the runs were requested; None: read from configs/
    instead: str = ""  # the alternative to more runs, if only logs were given; else empty
    commits: dict[str, tuple[Commit, ...]] = {}  # name of the arm -> its commits that the other arm lacks


def compare_case(case: CaseRuns, *, past: Mapping[str, Past] | None = None) -> ComparisonRecord:
    """Compare the two arms of a case.

    past: name of a noisy metric's series -> differences of equal runs in the target's history.
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
        circumstances=Circumstances(
            past=past or {}, chance=chance_of(cases=case.cases, look=case.look), instead=case.instead
        ),
        checkpoints=case.checkpoints,
        program=case.program,
        turns=case.turns,
        host=case.host,
        function=case.function,
        coverage=case.coverage,
        data=case.data,
    )
    code = {run.arm: run.plan.version for run in case.runs if run.plan is not None and run.plan.version is not None}
    headline = add_code_note(record.headline, [code[arm] for arm in rules.arms if arm in code])
    return record.replace(commits=case.commits, code=code, headline=headline)


def add_code_note(headline: str, code: Sequence[CodeVersion]) -> str:
    """Return the headline, with a note if two versions do not differ for the trainer."""
    if len(code) < 2:
        return headline
    left, right = code
    if left.sha == right.sha:
        return f"{headline} ({left.name} and {right.name} are one commit)" if left.name != right.name else headline
    if right.different == ():
        return f"{headline} (no file differs between the two)"
    if right.read == 0:
        return f"{headline} (no file that the trainer reads differs between the two)"
    return headline


def may_differ_in_time(case: CaseRuns) -> bool:
    """Return whether both arms ended well and their executables are not proved to be one."""
    record = compare_case(case)
    return not record.has_died and not _is_one_executable(case, record)


def host_is_open(case: CaseRuns) -> bool:
    """Return whether both arms ended well with one executable, and only the time of their steps is undecided."""
    record = compare_case(case)
    left = {row.metric for row in record.rows if row.verdict == "unknown"}
    times = {STEP_TIME.name, CPU_TIME.name}
    return not record.has_died and bool(left) and left <= times and _is_one_executable(case, record)


def bits_differ(case: CaseRuns) -> bool:
    """Return whether both arms ended well, and their programs or a loss, a norm or a final array differ.

    Two programs with equal bits may differ at states that no run reached. False for one executable on equal data, whose
    function is known.
    """
    record = compare_case(case)
    if record.has_died or record.aa or (_is_one_executable(case, record) and not data_may_differ(case)):
        return False
    holds = {floor.name: floor.holds for floor in record.floors}
    differ = holds.get("same bits") is False or holds.get("same program") is False
    return differ or any(parity.different for parity in record.parities)


def data_may_differ(case: CaseRuns) -> bool:
    """Return whether the digests of the arms' batches differ, or are unknown, in runs that may share no start."""
    data = find_data(_arms_of(case), None)
    started = any(run.plan is not None and run.plan.start is not None for run in case.runs)
    return data.kind != "equal" if data is not None else not started


def _arms_of(case: CaseRuns) -> Arms:
    left, right = (
        ArmRuns(name=runs[0].arm, label=runs[0].label, runs=tuple(runs)) for runs in _sides(case, _rules_of(case))
    )
    return left, right


def _is_one_executable(case: CaseRuns, record: ComparisonRecord) -> bool:
    return run_one_executable(_arms_of(case), list(record.floors))


def case_id(case: CaseRuns) -> str:
    """Return the id of the comparison of these runs."""
    baseline, candidate = _sides(case, _rules_of(case))
    return comparison_id(case.comparison, case.case, [*baseline, *candidate])


def _rules_of(case: CaseRuns) -> VerdictRules:
    return case.rules or load_verdict_rules(case.comparison, case.target)


def _sides(case: CaseRuns, rules: VerdictRules) -> list[list[RunRecord]]:
    """Return the baseline's runs and the candidate's runs."""
    return [[run for run in case.runs if run.arm == name] for name in rules.arms]


def is_control(rules: VerdictRules, runs: Sequence[RunRecord]) -> bool:
    """Return whether the case is a control, whose arms should be equal: with --aa, or if neither arm sets anything."""
    declared = any(run.plan is not None and run.plan.aa for run in runs)
    return declared or (rules.alike and not any(run.plan and run.plan.software for run in runs))


def read_past_noise(case: CaseRuns, store: Store) -> dict[str, Past]:
    """Return level → differences of earlier equal runs on the case's target, as far as extensions have them."""
    return {level: past for read in find_functions("read_past") for level, past in read(case, store).items()}
