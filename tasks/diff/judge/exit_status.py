"""Comparisons → the exit status of the command that made them."""

from collections.abc import Sequence

from tasks.records.compared_case import ComparisonRecord


def exit_status(records: Sequence[ComparisonRecord]) -> int:
    """Return 1 if a verdict is *regressed* or *changed* or an arm died; else 3 if a verdict is *unknown*; else 0.

    A comparison with a gate counts by the gate.
    """
    statuses = set(map(_status, records))
    return next((status for status in (1, 3) if status in statuses), 0)


def _status(record: ComparisonRecord) -> int:
    if record.gate is not None:
        return record.gate.status
    if record.verdict in ("regressed", "changed") or any(finding.kind == "died" for finding in record.findings):
        return 1
    return 3 if record.verdict == "unknown" else 0
