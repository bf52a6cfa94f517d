"""States the floors of equality where a trainer proves nothing of itself: its metrics can only show a difference."""

from tasks.diff.arms import ArmRuns
from tasks.diff.metric_bits import OTHER_STEPS, compare_metrics
from tasks.records import Floor


def runs_maxtext(arm: ArmRuns) -> bool:
    """Whether the arm's trainer is MaxText, which writes no program and no digests."""
    return any(run.plan is not None and run.plan.trainer == "maxtext" for run in arm.runs)


def floors_without_proof(baseline: ArmRuns, candidate: ArmRuns) -> list[Floor]:
    """The three floors where at least one arm is trained by MaxText."""
    return [
        Floor(name="same program", holds=None, evidence="MaxText does not tell which program it lowers"),
        _same_bits(baseline, candidate),
        Floor(name="same checkpoint", holds=None, evidence="MaxText restores no checkpoint of another arm"),
    ]


def _same_bits(baseline: ArmRuns, candidate: ArmRuns) -> Floor:
    (first, left), *others = [(arm.name_run(n), run) for arm in (baseline, candidate) for n, run in enumerate(arm.runs)]
    found = [(name, *compare_metrics(left, run)) for name, run in others]
    for name, difference, _ in found:
        if difference not in (None, OTHER_STEPS):
            return Floor(name="same bits", holds=False, evidence=f"{difference} ({first} and {name})")
    if any(difference == OTHER_STEPS for _, difference, _ in found):
        return Floor(name="same bits", holds=None, evidence=OTHER_STEPS)
    compared = sorted(set.intersection(*(set(names) for _, _, names in found)))
    alike = f"{', '.join(compared)} of every step are equal bit for bit; but " if compared else ""
    return Floor(name="same bits", holds=None, evidence=f"{alike}MaxText writes no digest of its weights")
