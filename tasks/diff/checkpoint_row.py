"""Turns the checkpoints of two arms, and what was verified of them, into one row."""

from collections.abc import Sequence

from tasks.diff.arms import ArmRuns
from tasks.diff.metric_row import Arms, Cell, Metric, make_row, missing_decision
from tasks.records import CheckpointDifference, Decision, Floor, MetricDiff, Verdict
from tasks.verify.saved import Saved, read_saved

CHECKPOINTS = Metric(
    name="checkpoints",
    title="Checkpoints",
    unit="",
    better="equal",
    rule="committed and verified, of those announced",
    decimals=None,
)


def checkpoint_row(arms: Arms, found: CheckpointDifference | None = None, floors: Sequence[Floor] = ()) -> MetricDiff:
    """Whether each run's checkpoints are really there, and the same ones on both sides.

    `found`: what the arms' checkpoints of one step hold, side by side. Where a floor says that they train the same
    bits, a difference is judged; else it is reported, and other rows judge what was trained.
    """
    saved = read_saved(arms[0].runs, arms[0].name_run), read_saved(arms[1].runs, arms[1].name_run)
    cells = (_cell(arms[0], saved[0]), _cell(arms[1], saved[1]))
    decision = missing_decision(cells, arms)
    if decision is None:
        verdict, reason = _judge(arms, saved)
        if found is not None and verdict == "same":
            verdict, reason = _judge_content(found, proved=are_proved(floors), reason=reason)
        decision = Decision(verdict=verdict, reason=reason, threshold_text="exact")
    return make_row(CHECKPOINTS, cells, arms, decision)


def _cell(arm: ArmRuns, saved: Saved) -> Cell:
    if not saved.announced:
        return Cell(text="" if arm.dead else "none")
    return Cell(value=saved.counted, text=saved.summary, source=saved.source)


def _judge(arms: Arms, saved: tuple[Saved, Saved]) -> tuple[Verdict, str]:
    baseline, candidate = saved
    dead = [arm.label for arm in arms if arm.dead]
    if dead:
        return "unknown", f"{' and '.join(dead)} died before its last checkpoint"
    if candidate.broken and not baseline.broken:
        return "regressed", "; ".join(candidate.broken)
    if baseline.broken:
        return "unknown", "; ".join((*baseline.broken, *candidate.broken))
    if not baseline.announced and not candidate.announced:
        return "same", "neither arm saves any"
    unproved = [arm.label for arm, side in zip(arms, saved, strict=True) if side.announced and not side.proved]
    names = " and ".join(unproved)
    said = f"nothing of {names} could be verified from here: this is what the logs say" if unproved else ""
    unseen = [arm.label for arm, side in zip(arms, saved, strict=True) if side.invisible and not side.proved]
    if unseen:
        return "unknown", f"the log of {' and '.join(unseen)} does not show commits; {said}"
    if lacking := sorted(baseline.steps - candidate.steps):
        if not candidate.proved and (cut := [step for step in lacking if not candidate.begun <= step]):
            steps = ", ".join(map(str, cut))
            return "unknown", f"the log of {arms[1].label} does not hold the part in which step {steps} was saved"
        return "regressed", f"{arms[1].label} has no checkpoint of step {', '.join(map(str, lacking))}"
    if lacking := sorted(candidate.steps - baseline.steps):
        return "unknown", f"{arms[0].label} has no checkpoint of step {', '.join(map(str, lacking))}"
    return "same", said or "every checkpoint was committed and verified"


def are_proved(floors: Sequence[Floor]) -> bool:
    """Whether the arms are proved to train the same bits, so that their checkpoints must be the same."""
    held = {floor.name for floor in floors if floor.holds}
    return not any(floor.holds is False for floor in floors) and bool(held & {"same bits", "same checkpoint"})


def _judge_content(found: CheckpointDifference, *, proved: bool, reason: str) -> tuple[Verdict, str]:
    summary = found.summary
    if found.problem or found.equal:
        return "same", f"{reason}; {summary}"
    if proved:
        return "changed", f"{summary}, though the arms are proved to train the same bits"
    return "same", f"{reason}; {summary}: reported, not judged, as nothing proves that the arms train the same bits"
