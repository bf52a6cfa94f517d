"""Judges whether each arm restores what it saved, from the check of its first run."""

from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.judge.metric_rows import make_row
from tasks.metrics.result_metrics import RESTORED
from tasks.records.compared_case import Decision, MetricDiff
from tasks.records.restored import Restored
from tasks.records.run_facts import Measured


def restored_row(arms: Arms) -> MetricDiff | None:
    """Return the row; None if the restore of neither arm was checked."""
    left, right = (_find(arm) for arm in arms)
    if (left is None or left.holds is None) and (right is None or right.holds is None):
        return None
    return make_row(RESTORED, (_cell(left), _cell(right)), arms, _decide(left, right))


def _find(arm: ArmRuns) -> Restored | None:
    return next((run.restored for run in arm.runs if run.restored is not None), None)


def _cell(found: Restored | None) -> Measured:
    if found is None or found.holds is None:
        return Measured(text="not restored")
    return Measured(text=f"{len(found.arrays) - len(found.faults)} of {len(found.arrays)} arrays")


def _decide(left: Restored | None, right: Restored | None) -> Decision:
    """Return the verdict: a fault that only one arm has counts."""
    before, after = (found.holds if found is not None else None for found in (left, right))
    why = right.summary if right is not None else ""
    if before is True and after is not True:
        return Decision(verdict="regressed", reason=why or "only the baseline was checked", threshold_text="exact")
    if after is True and before is not True:
        was = f"; the baseline: {left.summary}" if left is not None else ""
        return Decision(verdict="improved", reason=f"{why}{was}", threshold_text="exact")
    if left is None or right is None or before is None or after is None:  # the one that was checked does not restore
        which, found = ("candidate", right) if before is None else ("baseline", left)
        why = found.summary if found is not None else ""
        return Decision(verdict="unknown", reason=f"only the {which} was checked: {why}", threshold_text="exact")
    same = {(one.name, one.word) for one in left.faults} == {(one.name, one.word) for one in right.faults}
    if same:
        reason = why if after else f"neither arm restores what it saved: {why}"
        return Decision(verdict="same", reason=reason, threshold_text="exact")
    return Decision(verdict="changed", reason=f"{why}; the baseline: {left.summary}", threshold_text="exact")
