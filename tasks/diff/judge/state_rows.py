"""Compares the states that training left: judges the checkpoints and the final arrays; finds untrained arrays."""

from collections.abc import Sequence

from tasks.diff.examine.arms import ArmRuns, Arms
from tasks.diff.examine.parity import MetricParity
from tasks.diff.examine.untrained import Digests, digests_of
from tasks.diff.judge.metric_rows import make_row, missing_decision, not_judged
from tasks.metrics.result_metrics import CHECKPOINTS, FINAL_STATE
from tasks.records.compared_case import Decision, Floor, MetricDiff, Verdict
from tasks.records.compared_checkpoints import CheckpointDifference
from tasks.records.run_facts import Measured
from tasks.records.text import counted
from tasks.verify.saves import Saved, read_saved


def checkpoint_row(
    arms: Arms,
    difference: CheckpointDifference | None = None,
    floors: Sequence[Floor] = (),
    *,
    loss: MetricParity | None = None,
) -> MetricDiff:
    """Return the row that judges whether each run's checkpoints exist and whether both arms have the same ones.

    `difference`: the comparison of both arms' checkpoints of one step. NaN or infinite values in one arm only are
    always judged. Other differences are judged only if the arms are proved (`floors`) to train the same bits, or if
    every `loss` is equal bit for bit. Else the differences are only reported.
    """
    saved = read_saved(arms[0].runs, arms[0].name_run), read_saved(arms[1].runs, arms[1].name_run)
    cells = (_saves_cell(arms[0], saved[0]), _saves_cell(arms[1], saved[1]))
    verdict, reason = _judge_saves(arms, saved)
    lost = difference and _judge_lost(difference)
    if lost and verdict != "regressed":
        verdict, reason = lost
    elif difference is not None and verdict == "same":
        verdict, reason = _judge_content(difference, _why_equal(floors, loss), reason=reason)
    decision = Decision(verdict=verdict, reason=reason, threshold_text="exact")
    return make_row(CHECKPOINTS, cells, arms, missing_decision(cells, arms) or decision)


def _saves_cell(arm: ArmRuns, saved: Saved) -> Measured:
    if not saved.announced:
        return Measured(text="" if arm.dead else "none")
    return Measured(value=saved.valid, text=saved.summary, source=saved.source)


def _judge_saves(arms: Arms, saved: tuple[Saved, Saved]) -> tuple[Verdict, str]:
    baseline, candidate = saved
    dead = [arm.label for arm in arms if arm.dead]
    if dead:
        return "unknown", f"{' and '.join(dead)} died before its last checkpoint"
    if candidate.broken and not baseline.broken:
        return "regressed", "; ".join(candidate.broken)
    if baseline.broken:
        return "unknown", "; ".join((*baseline.broken, *candidate.broken))
    if not baseline.announced and not candidate.announced:
        return "not judged", "neither arm saves any"
    unproved = [arm.label for arm, side in zip(arms, saved, strict=True) if side.announced and not side.has_proofs]
    said = ""
    if unproved:
        names = " and ".join(unproved)
        said = f"the checkpoints of {names} could not be verified on this machine; this row relies on the logs"
    unseen = [arm.label for arm, side in zip(arms, saved, strict=True) if side.invisible and not side.has_proofs]
    if unseen:
        return "unknown", f"the log of {' and '.join(unseen)} does not show commits; {said}"
    if lacking := sorted(baseline.steps - candidate.steps):
        if not candidate.has_proofs and (cut := [step for step in lacking if not candidate.begun <= step]):
            steps = ", ".join(map(str, cut))
            missing = f"a checkpoint of step {steps} may be missing from the log only"
            return "unknown", f"the log of {arms[1].label} is incomplete, so {missing}"
        return "regressed", f"{arms[1].label} has no checkpoint of step {', '.join(map(str, lacking))}"
    if lacking := sorted(candidate.steps - baseline.steps):
        return "unknown", f"{arms[0].label} has no checkpoint of step {', '.join(map(str, lacking))}"
    return "same", said or "every checkpoint was committed and verified"


def _why_equal(floors: Sequence[Floor], loss: MetricParity | None) -> str:
    """Return why the checkpoints of both arms must be equal; empty if they need not be."""
    held = {floor.name for floor in floors if floor.holds}
    if held & {"same bits", "same checkpoint"} and not any(floor.holds is False for floor in floors):
        return "the arms are proved to train the same bits"
    return "every loss is equal bit for bit" if loss is not None and loss.has_equal_bits else ""


def _judge_lost(difference: CheckpointDifference) -> tuple[Verdict, str] | None:
    """Return the verdict on values that are NaN or infinite in one arm only, and its reason; None if there are none."""
    sides: tuple[tuple[int, Verdict, str], ...] = ((1, "regressed", "candidate"), (0, "improved", "baseline"))
    for side, word, arm in sides:
        lost = [(array, array.values.lost[side]) for array in difference.compared if array.values]
        lost = [(array, values) for array, values in lost if values]
        if lost:
            name = (lost[0][0].names or lost[0][0].other_names)[0]
            count = f"{counted(sum(values for _, values in lost), 'value')} in {counted(len(lost), 'array')}"
            return word, (
                f"at step {difference.step}, only the {arm}'s checkpoint has NaN or infinite values where the other is "
                f"finite: {count}, first {name}"
            )
    return None


def _judge_content(difference: CheckpointDifference, why_equal: str, *, reason: str) -> tuple[Verdict, str]:
    summary = difference.summary
    if difference.problem or difference.equal or difference.is_blank:
        return "same", f"{reason}; {summary}"
    if why_equal:
        return "changed", f"{summary}, though {why_equal}"
    return "same", f"{reason}; {summary}: reported, not judged, as nothing proves that the arms train the same bits"


def final_state_row(arms: Arms, loss: MetricParity) -> MetricDiff | None:
    """Return the row that compares the arms' final arrays; None unless every run has digests of its arrays.

    Different arrays are judged only if all losses are equal bit for bit and the baseline's runs end in equal states.
    """
    states = [[digests_of(run, "state") for run in arm.runs] for arm in arms]
    if not all(state for side in states for state in side):
        return None
    cells = [Measured(text=counted(len(side[0]), "array")) for side in states]
    return make_row(FINAL_STATE, (cells[0], cells[1]), arms, _judge_arrays(states, loss))


def _judge_arrays(states: list[list[Digests]], loss: MetricParity) -> Decision:
    first = states[0][0]
    if any(state != first for state in states[0]):
        return not_judged("the baseline's runs end in different states")
    for state in states[1]:
        common = first.keys() & state.keys()
        different = sorted(path for path in common if first[path] != state[path])
        many = f"{len(different)} of {len(common)} arrays differ"
        if different and loss.has_equal_bits:
            reason = f"{many}, first {different[0]}, though every loss is equal bit for bit"
            return Decision(verdict="changed", reason=reason, threshold_text="exact")
        if different:
            return not_judged(f"{many}; the losses are not proved equal either, and another row judges them")
        if alone := first.keys() ^ state.keys():
            return not_judged(
                f"only one arm has {counted(len(alone), 'array')}, first {min(alone)}; the common arrays are equal"
            )
    return Decision(verdict="same", reason="every array is equal bit for bit", threshold_text="exact")
