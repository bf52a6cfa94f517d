"""The rows that MaxView lacks: steady step time, stalls, parity of the loss, memory of the program, checkpoints."""

from collections.abc import Mapping, Sequence

from configs.comparison import Tolerance
from tasks.diff.arms import ArmRuns, step_table
from tasks.diff.decide import Decision, decide_exact, decide_noisy
from tasks.diff.maxview_rows import ABSENT, DIED, Cell, missing_decision, show_difference
from tasks.diff.parity import first_divergence, precision_of
from tasks.diff.steady import Steady, steady
from tasks.records import Better, FirstDivergence, Floor, MetricDiff, Source


def our_rows(
    baseline: ArmRuns, candidate: ArmRuns, tolerances: Mapping[str, Tolerance], floors: Sequence[Floor]
) -> tuple[list[MetricDiff], dict[str, Decision], FirstDivergence | None]:
    """Our rows, the decisions that MaxView's rows share, and the first step whose loss differs."""
    same_program = any(floor.name == "same program" and floor.holds for floor in floors)
    time_row, time_decision = _step_time(baseline, candidate, tolerances["step_time_s"], same_program)
    divergence = first_divergence(baseline.first, candidate.first)
    rows = [
        time_row,
        _stall_time(baseline, candidate),
        _first_step(baseline, candidate),
        _loss_per_step(baseline, candidate, divergence, tolerances["loss"]),
        _program_memory(baseline, candidate, tolerances["program_memory_gb"]),
        _checkpoints(baseline, candidate),
    ]
    return rows, {"step_time_s": time_decision}, divergence


def _row(
    metric: str,
    title: str,
    unit: str,
    better: Better,
    rule: str,
    cells: tuple[Cell, Cell],
    arms: tuple[ArmRuns, ArmRuns],
    decision: Decision,
    decimals: int | None,
) -> MetricDiff:
    left, right = cells
    difference = None if left.value is None or right.value is None else right.value - left.value
    texts = [cell.text or (DIED if arm.dead else ABSENT) for cell, arm in zip(cells, arms, strict=True)]
    return MetricDiff(
        metric=metric,
        title=title,
        unit=unit,
        better=better,
        rule=rule,
        group="ours",
        baseline=left.value,
        candidate=right.value,
        baseline_text=texts[0],
        candidate_text=texts[1],
        difference=difference,
        difference_text=show_difference(difference, decimals),
        threshold=decision.threshold,
        threshold_text=decision.threshold_text,
        verdict=decision.verdict,
        reason=decision.reason,
        baseline_source=left.source,
        candidate_source=right.source,
    )


def _steady_runs(arm: ArmRuns) -> list[Steady]:
    return [state for run in arm.runs if (state := steady(run, step_table(run)))]


def _step_time(
    baseline: ArmRuns, candidate: ArmRuns, tolerance: Tolerance, same_program: bool
) -> tuple[MetricDiff, Decision]:
    states = (_steady_runs(baseline), _steady_runs(candidate))
    arms = (baseline, candidate)
    cells = []
    for arm, runs in zip(arms, states, strict=True):
        if not runs:
            cells.append(Cell(value=None, text="" if arm.dead else "too few steps"))
            continue
        middle = sorted(run.median_s for run in runs)[len(runs) // 2]
        spread = max(run.spread_s for run in runs)
        cells.append(Cell(value=middle, text=f"{middle:.3f} (spread {spread:.3f})", source=_second_step(arm)))
    decision = missing_decision(bool(states[0]), bool(states[1]), baseline, candidate) or decide_noisy(
        [run.median_s for run in states[0]],
        [run.median_s for run in states[1]],
        better="lower",
        tolerance=tolerance,
        spread=max(run.spread_s for runs in states for run in runs),
        same_program=same_program,
    )
    rule = "median without the first step; spread = between the quartiles, stalls left out"
    row = _row(
        "step_time_s", "Step time, steady", "s", "lower", rule, (cells[0], cells[1]), arms, decision, 3
    )  # fmt: skip
    return row, decision


def _second_step(arm: ArmRuns) -> Source | None:
    steps = arm.reading.steps
    if steps.height < 2:
        return None
    row = steps.row(1, named=True)
    return Source(line=row["line"], offset=row["offset"])


def _stall_time(baseline: ArmRuns, candidate: ArmRuns) -> MetricDiff:
    cells = []
    for arm in (baseline, candidate):
        runs = _steady_runs(arm)
        if not runs:
            cells.append(Cell(value=None, text="" if arm.dead else "too few steps"))
            continue
        total = sum(run.stall_s for run in runs)
        stalls = [
            stall for run in arm.runs for stall in run.reading.stalls if stall.cause not in ("compile", "dispatch")
        ]
        causes = ", ".join(
            f"{sum(s.cause == cause for s in stalls)} × {cause}" for cause in dict.fromkeys(s.cause for s in stalls)
        )
        source = Source(line=stalls[0].line, offset=stalls[0].offset) if stalls else None
        cells.append(Cell(value=total, text=f"{total:.1f}" + (f" ({causes})" if causes else ""), source=source))
    known = bool(cells[0].text) and bool(cells[1].text)
    reason = "waiting for checkpoints and the host, kept apart from the step time; not judged"
    decision = missing_decision(bool(cells[0].text), bool(cells[1].text), baseline, candidate) or Decision(
        verdict="same", reason=reason
    )
    if known and decision.verdict == "same" and cells[0].value != cells[1].value:
        decision = Decision(verdict="same", reason=f"{reason}: storage decides it, not the trainer")
    rule = "seconds above the steady median, summed over the stalls"
    return _row(
        "stall_s", "Stalls", "s", "lower", rule, (cells[0], cells[1]), (baseline, candidate), decision, 1
    )  # fmt: skip


def _first_step(baseline: ArmRuns, candidate: ArmRuns) -> MetricDiff:
    cells = []
    for arm in (baseline, candidate):
        table = step_table(arm.first)
        seconds = table["seconds"][0] if table.height else None
        source = Source(line=table["line"][0], offset=table["offset"][0]) if table.height and table["line"][0] else None
        cells.append(Cell(value=seconds, text="" if seconds is None else f"{seconds:.3f}", source=source))
    decision = missing_decision(bool(cells[0].text), bool(cells[1].text), baseline, candidate) or Decision(
        verdict="same", reason="compilation and the first execution, once per run; not judged"
    )
    return _row(
        "first_step_s", "First step", "s", "lower", "seconds of the first step", (cells[0], cells[1]),
        (baseline, candidate), decision, 3,
    )  # fmt: skip


def _loss_per_step(
    baseline: ArmRuns, candidate: ArmRuns, divergence: FirstDivergence | None, tolerance: Tolerance
) -> MetricDiff:
    arms = (baseline, candidate)
    tables = [step_table(arm.first) for arm in arms]
    common = set(tables[0]["step"]) & set(tables[1]["step"])
    cells = [Cell(value=None, text="" if not table.height else f"{table.height} steps") for table in tables]
    decision = missing_decision(bool(cells[0].text), bool(cells[1].text), baseline, candidate)
    if decision is None and not common:
        decision = Decision(verdict="unknown", reason="the arms have no step in common")
    if decision is None and divergence is None:
        precision = precision_of(baseline.first, candidate.first)
        decision = Decision(
            verdict="same", reason=f"equal to {precision} at all {len(common)} common steps", threshold_text="exact"
        )
    if decision is None:
        assert divergence is not None
        cells = [
            Cell(
                value=float(divergence.baseline),
                text=divergence.baseline,
                source=_step_source(arms[0], divergence.step),
            ),
            Cell(
                value=float(divergence.candidate),
                text=divergence.candidate,
                source=_step_source(arms[1], divergence.step),
            ),
        ]
        judged = decide_exact(
            float(divergence.baseline),
            float(divergence.candidate),
            better="equal",
            tolerance=tolerance,
            precision=divergence.precision,
            unit=0.001 if "decimals" in divergence.precision else 0.0,
        )
        decision = judged.model_copy(
            update={"reason": f"differs first at step {divergence.step}: {judged.reason}", "threshold_text": "exact"}
        )
    return _row(
        "loss_per_step", "Loss, step by step", "", "equal", "first step whose loss differs", (cells[0], cells[1]),
        arms, decision, 3 if divergence and "decimals" in divergence.precision else 6,
    )  # fmt: skip


def _step_source(arm: ArmRuns, step: int) -> Source | None:
    rows = arm.reading.steps.filter(arm.reading.steps["step"] == step)
    if rows.is_empty():
        return None
    row = rows.row(-1, named=True)
    return Source(line=row["line"], offset=row["offset"])


def _program_memory(baseline: ArmRuns, candidate: ArmRuns, tolerance: Tolerance) -> MetricDiff:
    cells = []
    for arm in (baseline, candidate):
        total = arm.reading.memory.total_gb
        text = "" if total is None else f"{total:.1f}"
        cells.append(Cell(value=total, text=text, source=arm.reading.memory.source))
    decision = missing_decision(bool(cells[0].text), bool(cells[1].text), baseline, candidate)
    if decision is None:
        assert cells[0].value is not None  # both texts are there, so both values are
        assert cells[1].value is not None
        decision = decide_exact(
            cells[0].value,
            cells[1].value,
            better="lower",
            tolerance=tolerance,
            precision="printed precision",
            unit=0.1,
        )
    return _row(
        "program_memory_gb", "Program memory", "GB", "lower", "the compiler's forecast for one device",
        (cells[0], cells[1]), (baseline, candidate), decision, 1,
    )  # fmt: skip


def _checkpoints(baseline: ArmRuns, candidate: ArmRuns) -> MetricDiff:
    arms = (baseline, candidate)
    cells = [_checkpoint_cell(arm) for arm in arms]
    bad = [(arm, proof) for arm in arms for run in arm.runs for proof in run.proofs if not proof.ok]
    decision = missing_decision(bool(cells[0].text), bool(cells[1].text), *arms)
    if bad:
        arm, proof = bad[0]
        verdict = "regressed" if arm is candidate else "unknown"
        problem = proof.problems[0].message if proof.problems else "verification failed"
        decision = Decision(verdict=verdict, reason=f"{arm.label}, step {proof.step}: {problem}")
    if decision is None:
        unverified = [arm.label for arm in arms if not any(run.proofs for run in arm.runs)]
        if unverified:
            reason = f"what the logs say of them; nothing of {' and '.join(unverified)} could be verified from here"
            committed = all(_committed(arm) for arm in arms)
            decision = Decision(verdict="same" if committed else "unknown", reason=reason)
        else:
            decision = Decision(verdict="same", reason="every checkpoint was committed and verified")
    return _row(
        "checkpoints", "Checkpoints", "", "equal", "committed and verified, of those announced",
        (cells[0], cells[1]), arms, decision, None,
    )  # fmt: skip


def _committed(arm: ArmRuns) -> bool:
    events = [event for run in arm.runs for event in run.reading.checkpoints]
    return bool(events) and all(event.committed for event in events)


def _checkpoint_cell(arm: ArmRuns) -> Cell:
    events = [event for run in arm.runs for event in run.reading.checkpoints]
    proofs = [proof for run in arm.runs for proof in run.proofs]
    if not events and not proofs:
        return Cell(value=None, text="" if arm.dead else "none")
    source = Source(line=events[0].line, offset=events[0].offset) if events else None
    announced = max(len(events), len(proofs))
    if proofs:
        good = sum(proof.ok for proof in proofs)
        return Cell(value=float(good), text=f"{good} of {announced} verified", source=source)
    if all(event.committed is None for event in events):
        return Cell(value=None, text=f"{announced} announced, commit not visible from this host", source=source)
    done = sum(event.committed is True for event in events)
    return Cell(value=float(done), text=f"{done} of {announced} committed", source=source)
