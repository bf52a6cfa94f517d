"""Finds where two arms stop being equal, and states the three floors of equality."""

import struct

from tasks.diff.arms import ArmRuns, is_exact, step_table
from tasks.records import FirstDivergence, Floor, RunRecord

PRINTED = "printed precision (3 decimals)"
EXACT = "the last bit (float32)"


def precision_of(baseline: RunRecord, candidate: RunRecord) -> str:
    """The precision in which the losses of both runs are known."""
    return EXACT if is_exact(baseline) and is_exact(candidate) else PRINTED


def first_divergence(baseline: RunRecord, candidate: RunRecord) -> FirstDivergence | None:
    """The first common step whose losses differ, at the best precision both have; None if there is none."""
    exact = is_exact(baseline) and is_exact(candidate)
    tables = [
        dict(zip(table["step"], table["loss"], strict=True)) for table in (step_table(baseline), step_table(candidate))
    ]
    for step in sorted(tables[0].keys() & tables[1].keys()):
        left, right = tables[0][step], tables[1][step]
        if left is None or right is None:
            continue
        same = _bits(left) == _bits(right) if exact else f"{left:.3f}" == f"{right:.3f}"
        if not same:
            texts = (repr(left), repr(right)) if exact else (f"{left:.3f}", f"{right:.3f}")
            return FirstDivergence(
                metric="loss",
                step=step,
                baseline=texts[0],
                candidate=texts[1],
                precision=EXACT if exact else PRINTED,
            )
    return None


def _bits(value: float) -> bytes:
    """The bits of a float, so that NaN equals NaN and 0.0 differs from -0.0."""
    return struct.pack("<d", value)


def floors_of(baseline: ArmRuns, candidate: ArmRuns) -> list[Floor]:
    """The three floors, from what the trainers proved of themselves; empty if neither says anything."""
    programs = [arm.first.program for arm in (baseline, candidate)]
    if not any(programs):
        return []
    return [
        _same_program(*programs),
        _same_bits(baseline.first, candidate.first),
        _same_checkpoint(baseline, candidate),
    ]


def _same_program(left: dict[str, object], right: dict[str, object]) -> Floor:
    hashes = (left.get("stablehlo_sha256"), right.get("stablehlo_sha256"))
    if not all(isinstance(value, str) for value in hashes):
        return Floor(name="same program", holds=None, evidence="an arm ended before its train step was lowered")
    holds = hashes[0] == hashes[1]
    shown = [str(value)[:12] for value in hashes]
    evidence = (
        f"the lowered train step is the same StableHLO on both sides (sha256 {shown[0]}…)"
        if holds
        else f"the lowered train steps differ (sha256 {shown[0]}… and {shown[1]}…)"
    )
    return Floor(name="same program", holds=holds, evidence=evidence)


def _same_bits(left: RunRecord, right: RunRecord) -> Floor:
    holds, evidence = _compare_bits(left, right)
    return Floor(name="same bits", holds=holds, evidence=evidence)


def _compare_bits(left: RunRecord, right: RunRecord) -> tuple[bool | None, str]:
    starts = [run.program.get("initial_state") for run in (left, right)]
    ends = [run.program.get("state") for run in (left, right)]
    if left.metrics is None or right.metrics is None or None in starts or None in ends:
        return None, "an arm ended before its final state could be summed up"
    if starts[0] != starts[1]:
        return False, "the arms start from different weights"
    frames = [m.unique("step", keep="last", maintain_order=True).sort("step") for m in (left.metrics, right.metrics)]
    if frames[0]["step"].to_list() != frames[1]["step"].to_list():
        return None, "the arms did not train the same steps"
    for name in [c for c in ("loss", "grad_norm", "param_norm") if c in left.metrics.columns]:
        for step, a, b in zip(frames[0]["step"], frames[0][name], frames[1][name], strict=True):
            if _bits(float(a)) != _bits(float(b)):
                return False, f"{name} differs at step {step}: {a!r} and {b!r}"
    arrays = [dict(end["arrays"]) for end in ends if end is not None]
    paths = arrays[0].keys() | arrays[1].keys()
    different = sorted(path for path in paths if arrays[0].get(path) != arrays[1].get(path))
    if different:
        return False, f"{len(different)} of {len(paths)} arrays differ after the last step, first {different[0]}"
    return True, (
        f"first weights, losses and gradient norms of {frames[0].height} steps, and all {len(paths)} arrays of the "
        "state after them are equal bit for bit"
    )


def _same_checkpoint(baseline: ArmRuns, candidate: ArmRuns) -> Floor:
    crossings = [
        (arm, run.program["cross_restore"])
        for arm in (baseline, candidate)
        for run in arm.runs
        if isinstance(run.program.get("cross_restore"), dict)
    ]
    known = [(arm, crossing) for arm, crossing in crossings if crossing.get("holds") is not None]
    if not known:
        evidence = crossings[0][1]["evidence"] if crossings else "no arm tried to restore the other's checkpoint"
        return Floor(name="same checkpoint", holds=None, evidence=str(evidence))
    failed = [crossing for _, crossing in known if not crossing["holds"]]
    shown = failed or [crossing for _, crossing in known]
    return Floor(name="same checkpoint", holds=not failed, evidence="; ".join(str(c["evidence"]) for c in shown))
