"""States the three floors of equality from what the trainers proved of themselves, over all runs of both arms."""

from tasks.diff.arms import ArmRuns
from tasks.diff.metric_bits import OTHER_STEPS, compare_metrics
from tasks.diff.silent_floors import floors_without_proof, silent_trainer
from tasks.records import Floor, RunRecord


def floors_of(baseline: ArmRuns, candidate: ArmRuns) -> list[Floor]:
    """The three floors; empty if neither trainer says anything of itself, as with logs from elsewhere."""
    silent = silent_trainer(baseline, candidate)
    if silent is not None:
        return floors_without_proof(baseline, candidate, silent)
    if not any(run.program for arm in (baseline, candidate) for run in arm.runs):
        return []
    return [_same_program(baseline, candidate), _same_bits(baseline, candidate), _same_checkpoint(baseline, candidate)]


def _same_program(baseline: ArmRuns, candidate: ArmRuns) -> Floor:
    """Whether every run of both arms lowered the same train step."""
    hashes = [[run.program.get("stablehlo_sha256") for run in arm.runs] for arm in (baseline, candidate)]
    if not all(isinstance(value, str) for side in hashes for value in side):
        return Floor(name="same program", holds=None, evidence="an arm ended before its train step was lowered")
    known = [list(dict.fromkeys(str(value)[:12] for value in side)) for side in hashes]
    for arm, shown in zip((baseline, candidate), known, strict=True):
        if len(shown) > 1:
            evidence = f"the runs of {arm.label} lower different train steps (sha256 {shown[0]}… and {shown[1]}…)"
            return Floor(name="same program", holds=False, evidence=evidence)
    if len({value for side in hashes for value in side}) == 1:
        evidence = f"the lowered train step is the same StableHLO on both sides (sha256 {known[0][0]}…)"
        return Floor(name="same program", holds=True, evidence=evidence)
    evidence = f"the lowered train steps differ (sha256 {known[0][0]}… and {known[1][0]}…)"
    return Floor(name="same program", holds=False, evidence=evidence)


def _same_bits(baseline: ArmRuns, candidate: ArmRuns) -> Floor:
    """Whether every run computed what the first one did; the runs of one arm are held against each other too."""
    first, *others = [(arm.name_run(n), run) for arm in (baseline, candidate) for n, run in enumerate(arm.runs)]
    found = [(name, *_compare_bits(first[1], run)) for name, run in others]
    several = len(others) > 1
    for name, holds, evidence in found:
        if holds is False:
            where = f" ({first[0]} and {name})" if several else ""
            return Floor(name="same bits", holds=False, evidence=evidence + where)
    _, holds, evidence = next((item for item in found if item[1] is None), found[0])
    runs = f", in all {len(others) + 1} runs" if several and holds else ""
    return Floor(name="same bits", holds=holds, evidence=evidence + runs)


def _compare_bits(left: RunRecord, right: RunRecord) -> tuple[bool | None, str]:
    starts = [run.program.get("initial_state") for run in (left, right)]
    ends = [run.program.get("state") for run in (left, right)]
    if left.metrics is None or right.metrics is None or None in starts or None in ends:
        return None, "an arm ended before its final state could be summed up"
    if starts[0] != starts[1]:
        return False, "the arms start from different weights"
    difference, names = compare_metrics(left, right)
    if difference is not None:
        return (None if difference == OTHER_STEPS else False), difference
    arrays = [dict(end["arrays"]) for end in ends if end is not None]
    paths = arrays[0].keys() | arrays[1].keys()
    different = sorted(path for path in paths if arrays[0].get(path) != arrays[1].get(path))
    if different:
        return False, f"{len(different)} of {len(paths)} arrays differ after the last step, first {different[0]}"
    return True, (
        f"first weights, {', '.join(names)} of {left.metrics['step'].n_unique()} steps, and all {len(paths)} arrays "
        "of the state after them are equal bit for bit"
    )


def _same_checkpoint(baseline: ArmRuns, candidate: ArmRuns) -> Floor:
    crossings = [
        run.program["cross_restore"]
        for arm in (baseline, candidate)
        for run in arm.runs
        if isinstance(run.program.get("cross_restore"), dict)
    ]
    known = [crossing for crossing in crossings if crossing.get("holds") is not None]
    if not known:
        evidence = crossings[0]["evidence"] if crossings else "no arm tried to restore the other's checkpoint"
        return Floor(name="same checkpoint", holds=None, evidence=str(evidence))
    failed = [crossing for crossing in known if not crossing["holds"]]
    evidence = "; ".join(dict.fromkeys(str(crossing["evidence"]) for crossing in failed or known))
    return Floor(name="same checkpoint", holds=not failed, evidence=evidence)
