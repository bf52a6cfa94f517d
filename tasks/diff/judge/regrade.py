"""Adds to an examination what experiments show beyond rows: findings that no longer block, and the floor of float64."""

from tasks.diff.examine.comparability import in_order
from tasks.diff.examine.examination import Examination
from tasks.diff.examine.floors import floor_of_function
from tasks.diff.judge.program_time_rows import find_disagreement
from tasks.records.compared_case import Finding
from tasks.records.measurement import Measurements

# findings on the shape of the work, which need not change what is computed
OF_WORK = frozenset({"mesh", "device-count", "flops", "tokens"})


def regrade(examined: Examination, evidence: Measurements) -> Examination:
    """Return the examination with its findings in order, and with the floor `same function` if it was tried.

    Another mesh or other work per step does not block arms of one function.
    """
    function, floors = evidence.function, examined.floors
    findings = examined.findings
    if function is not None and function.answer == "same":
        findings = tuple(map(_allow_other_work, findings))
    # without any other floor, runs have no proofs to place it among
    if function is not None and (floors or examined.runs is None):
        floors = (*floors[:1], floor_of_function(function), *floors[1:])
    disagree = find_disagreement(evidence.turns, examined.subject.rules.effects)
    return examined.replace(findings=(*in_order(findings), *disagree), floors=floors)


def _allow_other_work(finding: Finding) -> Finding:
    blocks = finding.kind in OF_WORK and finding.effect == "blocks"
    return finding.replace(effect="qualifies") if blocks else finding
