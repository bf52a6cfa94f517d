"""Judges the checkpoints of two arms: the row of the metric `checkpoints`."""

from collections.abc import Sequence

from tasks.diff.arms import ArmRuns
from tasks.diff.metric_row import Arms, make_row, missing_decision
from tasks.diff.parity import MetricParity
from tasks.metrics.result_metrics import CHECKPOINTS
from tasks.records import CheckpointDifference, Decision, Floor, Measured, MetricDiff, Verdict
from tasks.records.text import counted
from tasks.verify.saved import Saved, read_saved


def checkpoint_row(
    arms: Arms,
    found: CheckpointDifference | None = None,
    floors: Sequence[Floor] = (),
    *,
    loss: MetricParity | None = None,
) -> MetricDiff:
    """Return the row that judges whether each run's checkpoints exist and whether both arms have the same ones.

    `found`: the comparison of both arms' checkpoints of one step. NaN or infinite values in one arm only are always
    judged. Other differences are judged only if the arms must have equal checkpoints: a floor proves that they train
    the same bits, or every `loss` is equal bit for bit. Else they are only reported.
    """
    saved = read_saved(arms[0].runs, arms[0].name_run), read_saved(arms[1].runs, arms[1].name_run)
    cells = (_cell(arms[0], saved[0]), _cell(arms[1], saved[1]))
    verdict, reason = _judge(arms, saved)
    lost = found and _judge_lost(found)
    if lost and verdict != "regressed":
        verdict, reason = lost
    elif found is not None and verdict == "same":
        verdict, reason = _judge_content(found, _why_equal(floors, loss), reason=reason)
    decision = Decision(verdict=verdict, reason=reason, threshold_text="exact")
    return make_row(CHECKPOINTS, cells, arms, missing_decision(cells, arms) or decision)


def _cell(arm: ArmRuns, saved: Saved) -> Measured:
    if not saved.announced:
        return Measured(text="" if arm.dead else "none")
    return Measured(value=saved.counted, text=saved.summary, source=saved.source)


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
    said = ""
    if unproved:
        names = " and ".join(unproved)
        said = f"the checkpoints of {names} could not be verified on this machine; this row relies on the logs"
    unseen = [arm.label for arm, side in zip(arms, saved, strict=True) if side.invisible and not side.proved]
    if unseen:
        return "unknown", f"the log of {' and '.join(unseen)} does not show commits; {said}"
    if lacking := sorted(baseline.steps - candidate.steps):
        if not candidate.proved and (cut := [step for step in lacking if not candidate.begun <= step]):
            steps = ", ".join(map(str, cut))
            lost = f"a checkpoint of step {steps} may be missing from the log only"
            return "unknown", f"the log of {arms[1].label} is incomplete, so {lost}"
        return "regressed", f"{arms[1].label} has no checkpoint of step {', '.join(map(str, lacking))}"
    if lacking := sorted(candidate.steps - baseline.steps):
        return "unknown", f"{arms[0].label} has no checkpoint of step {', '.join(map(str, lacking))}"
    return "same", said or "every checkpoint was committed and verified"


def _are_proved(floors: Sequence[Floor]) -> bool:
    """Return whether no floor failed and one proves the same bits, so that the checkpoints must be equal."""
    held = {floor.name for floor in floors if floor.holds}
    return not any(floor.holds is False for floor in floors) and bool(held & {"same bits", "same checkpoint"})


def _why_equal(floors: Sequence[Floor], loss: MetricParity | None) -> str:
    """Return why the checkpoints of both arms must be equal; empty if they need not be."""
    if _are_proved(floors):
        return "the arms are proved to train the same bits"
    return "every loss is equal bit for bit" if loss is not None and loss.has_equal_bits else ""


def _judge_lost(found: CheckpointDifference) -> tuple[Verdict, str] | None:
    """Return the verdict on values that are NaN or infinite in one arm only, and its reason; None without any."""
    sides: tuple[tuple[int, Verdict, str], ...] = ((1, "regressed", "candidate"), (0, "improved", "baseline"))
    for side, word, arm in sides:
        lost = [(array, array.values.lost[side]) for array in found.compared if array.values]
        lost = [(array, values) for array, values in lost if values]
        if lost:
            name = (lost[0][0].names or lost[0][0].other_names)[0]
            count = f"{counted(sum(values for _, values in lost), 'value')} in {counted(len(lost), 'array')}"
            return word, (
                f"at step {found.step}, only the {arm}'s checkpoint has NaN or infinite values where the other is "
                f"finite: {count}, first {name}"
            )
    return None


def _judge_content(found: CheckpointDifference, why_equal: str, *, reason: str) -> tuple[Verdict, str]:
    summary = found.summary
    if found.problem or found.equal:
        return "same", f"{reason}; {summary}"
    if why_equal:
        return "changed", f"{summary}, though {why_equal}"
    return "same", f"{reason}; {summary}: reported, not judged, as nothing proves that the arms train the same bits"
