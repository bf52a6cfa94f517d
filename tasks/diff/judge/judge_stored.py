"""Judges an examination by all that is stored of its two versions, and adds the next step and the page's past."""

from collections.abc import Sequence

from tasks.diff.examine.examination import Examination
from tasks.diff.judge.evidence import add_evidence, gather_evidence
from tasks.diff.judge.judge_case import judge
from tasks.diff.judge.suggested_commands import add_next
from tasks.records.compared_case import ComparisonRecord
from tasks.records.measurement import NOTHING, Measurements
from tasks.records.run import RunRecord
from tasks.store.store import Store


def judge_stored(
    examined: Examination, runs: Sequence[RunRecord], store: Store, *, cases: int, found: Measurements = NOTHING
) -> ComparisonRecord:
    """Return the comparison of trained runs. found: new measurements. cases: number of cases compared together."""
    record = judge(examined, gather_evidence(examined.subject, store, found))
    record = add_next(record, runs, cases=cases)
    return add_evidence(record, store.comparison(record.comparison, record.case, record.id))
