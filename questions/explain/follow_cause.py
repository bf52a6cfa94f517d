"""Turns an explained comparison into its next step: the line and the commit where its arms begin to differ."""

from tasks.metrics.program_metrics import MEMORY
from tasks.metrics.time_metrics import PROGRAM_TIME, STEP_TIME
from tasks.records.compared_case import ComparisonRecord
from tasks.records.explanation import CodeLine, Explanation
from tasks.records.next_step import NextStep


def follow_cause(record: ComparisonRecord) -> NextStep | None:
    """Return the next step of an explained comparison: to look at the line and commit where its arms begin to differ.

    A step that runs something new, such as a bisection, stays; so does every step without a known line.
    """
    explained, step = record.explanation, record.next_step
    if explained is None or step is None:
        return step
    line = _find_costly_line(record, explained)
    if line is not None and step.kind in ("train", "by hand", "explain", "look"):
        touched = f"The commit changed {line.place}." if line.commit and step.kind != "look" else ""
        before = touched or f"Most of the difference is at {line.place}."
        return step.replace(before=before) if step.kind == "look" else _look_at(before, line.commit)
    if explained.root is None or not explained.root.file:
        return step
    if step.kind not in ("by hand", "explain", "look"):
        return step
    before = f"If this is not intended, its cause is {explained.root.cause}."
    if step.kind == "look":
        return step.replace(before=before, purpose="This command shows your changes")
    return _look_at(before, explained.commit_of_root)


def _find_costly_line(record: ComparisonRecord, explained: Explanation) -> CodeLine | None:
    """Return the line of the larger memory or time of the candidate, if the arms differ in nothing else; else None."""
    worse = {row.metric for row in record.rows if row.verdict == "regressed" and not row.allowed}
    if not worse or worse - {MEMORY.name, PROGRAM_TIME.name, STEP_TIME.name}:
        return None
    line = explained.line_of_cost(memory=MEMORY.name in worse)
    return line if line is not None and line.file else None


def _look_at(before: str, commit: str) -> NextStep:
    """Return the step to look at a line, and at the commit that changed the line if it is known."""
    if not commit:
        return NextStep(kind="by hand", before=before)
    argv = ("git", "show", commit.partition(" ")[0])
    return NextStep(kind="by hand", argv=argv, before=before, purpose="This command shows the commit of this line")
