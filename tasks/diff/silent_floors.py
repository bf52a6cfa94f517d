"""States the floors of equality where a trainer proves nothing of itself: its metrics can only show a difference."""

from tasks.diff.arms import ArmRuns
from tasks.diff.metric_bits import OTHER_STEPS, compare_metrics
from tasks.records import Floor

TRAINERS = {"maxtext": "MaxText", "command": "the command"}  # that are not ours, as people call them


def silent_trainer(*arms: ArmRuns) -> str | None:
    """What people call the first trainer that is not ours, which writes no program and no digests; None if all are."""
    plans = [run.plan for arm in arms for run in arm.runs if run.plan is not None]
    return next((TRAINERS[plan.trainer] for plan in plans if plan.trainer != "maxview"), None)


def floors_without_proof(baseline: ArmRuns, candidate: ArmRuns, trainer: str) -> list[Floor]:
    """The three floors where at least one arm is trained by a `trainer` that is not ours."""
    return [
        Floor(name="same program", holds=None, evidence=f"{trainer} does not tell which program it lowers"),
        _same_bits(baseline, candidate, trainer),
        Floor(name="same checkpoint", holds=None, evidence=f"{trainer} restores no checkpoint of another arm"),
    ]


def _same_bits(baseline: ArmRuns, candidate: ArmRuns, trainer: str) -> Floor:
    (first, left), *others = [(arm.name_run(n), run) for arm in (baseline, candidate) for n, run in enumerate(arm.runs)]
    found = [(name, *compare_metrics(left, run)) for name, run in others]
    for name, difference, _ in found:
        if difference not in (None, OTHER_STEPS):
            return Floor(name="same bits", holds=False, evidence=f"{difference} ({first} and {name})")
    if any(difference == OTHER_STEPS for _, difference, _ in found):
        return Floor(name="same bits", holds=None, evidence=OTHER_STEPS)
    compared = sorted(set.intersection(*(set(names) for _, _, names in found)))
    alike = f"{', '.join(compared)} of every step are equal bit for bit; but " if compared else ""
    return Floor(name="same bits", holds=None, evidence=f"{alike}{trainer} writes no digest of its weights")
