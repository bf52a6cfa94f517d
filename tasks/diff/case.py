"""Gathers the runs of one case into its two arms and compares them as the comparison's file says."""

from configs.comparison import Comparison, load_comparison, load_tolerances
from configs.schema import Frozen
from tasks.diff.comparison import diff
from tasks.records import ComparisonRecord, RunRecord


class CaseRuns(Frozen):
    """Every run of one case of a comparison, in the order they ran."""

    comparison: str
    case: str
    target: str
    runs: tuple[RunRecord, ...]


def compare_case(case: CaseRuns) -> ComparisonRecord:
    """The comparison of a case's two arms with the tolerances and declared differences of its comparison."""
    spec = load_comparison(case.comparison)
    baseline, candidate = ([run for run in case.runs if run.arm == arm.name] for arm in spec.arms)
    record = diff(
        baseline,
        candidate,
        comparison=case.comparison,
        case=case.case,
        target=case.target,
        question=spec.question,
        tolerances=load_tolerances(spec.tolerances),
        declared=declared_keys(spec),
    )
    return record.model_copy(update={"next_command": suggest_next(record, repeats=len(baseline))})


def declared_keys(spec: Comparison) -> frozenset[str]:
    """The config keys that the arms are meant to differ in."""
    return frozenset(key for arm in spec.arms for key in arm.set)


def suggest_next(record: ComparisonRecord, *, repeats: int) -> str:
    """The command that is most useful after this verdict."""
    base = f"maxview compare {record.comparison} --case {record.case} --target {record.target}"
    if any(finding.kind == "died" for finding in record.findings):
        died = record.candidate if record.candidate.cause_of_death else record.baseline
        return f"maxview scrape {died.logs[0]}"
    if record.verdict == "unknown":
        return f"{base} --repeats {max(3, repeats * 2)}"
    return f"maxview compare {record.comparison} --case all --target {record.target}"
