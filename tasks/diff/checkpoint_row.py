"""Turns the checkpoints of two arms, and what was verified of them, into one row."""

from collections.abc import Sequence

from configs.schema import Frozen
from tasks.diff.arms import ArmRuns, numbered
from tasks.diff.decide import Decision
from tasks.diff.rows import Arms, Cell, Metric, make_row, missing_decision
from tasks.records import CheckpointDifference, CheckpointProof, Floor, MetricDiff, RunRecord, Source, Verdict

CHECKPOINTS = Metric(
    name="checkpoints",
    title="Checkpoints",
    unit="",
    better="equal",
    rule="committed and verified, of those announced",
    decimals=None,
)


class Saved(Frozen):
    """The checkpoints of one arm: counts over all of its runs, steps that every run has, and what is wrong."""

    announced: int
    verified: int
    retired: int  # deleted by a checkpoint manager that keeps only its newest ones
    committed: int  # as the logs show it
    invisible: int  # announced by a host that would not print the commit
    steps: frozenset[int]  # verified or retired in every run, or committed where nothing could be verified
    broken: tuple[str, ...]
    proved: bool  # whether anything of this arm was looked at
    source: Source | None


def checkpoint_row(arms: Arms, found: CheckpointDifference | None = None, floors: Sequence[Floor] = ()) -> MetricDiff:
    """Whether each run's checkpoints are really there, and the same ones on both sides.

    `found`: what the arms' checkpoints of one step hold, side by side. Where a floor says that they train the same
    bits, a difference is judged; else it is told, and other rows judge what was trained.
    """
    saved = (read_saved(arms[0]), read_saved(arms[1]))
    cells = (_cell(arms[0], saved[0]), _cell(arms[1], saved[1]))
    decision = missing_decision(cells, arms)
    if decision is None:
        verdict, reason = _judge(arms, saved)
        if found is not None and verdict == "same":
            verdict, reason = _judge_content(found, proved=are_proved(floors), reason=reason)
        decision = Decision(verdict=verdict, reason=reason, threshold_text="exact")
    return make_row(CHECKPOINTS, cells, arms, decision)


def read_saved(arm: ArmRuns) -> Saved:
    """Put an arm's announcements and proofs together, run by run."""
    events = [numbered(event, number) for number, run in enumerate(arm.runs) for event in run.reading.checkpoints]
    per_run = [_good_steps(run) for run in arm.runs]
    return Saved(
        announced=sum(len(_announced(run)) for run in arm.runs),
        verified=sum(len(_verified(run)) for run in arm.runs),
        retired=sum(len(_retired(run) - _verified(run)) for run in arm.runs),
        committed=sum(event.committed is True for event in events),
        invisible=sum(event.committed is None for event in events),
        steps=frozenset.intersection(*per_run),
        broken=tuple(p for number, run in enumerate(arm.runs) for p in _broken(arm.name_run(number), run)),
        proved=any(run.proofs for run in arm.runs),
        source=Source(line=events[0].line, offset=events[0].offset, run=events[0].run) if events else None,
    )


def _announced(run: RunRecord) -> set[int | None]:
    return {event.step for event in run.reading.checkpoints} | {proof.step for proof in run.proofs}


def _verified(run: RunRecord) -> set[int]:
    return {proof.step for proof in run.proofs if proof.ok and proof.step is not None}


def _retired(run: RunRecord) -> set[int]:
    """What a checkpoint manager deleted after its commit, by the log's word or as the verification saw it."""
    told = {event.step for event in run.reading.checkpoints if event.retired_line is not None and event.committed}
    kept = {
        event.step for event in run.reading.checkpoints if event.retired_line is None
    }  # saved again, or not deleted
    return (told - kept) | {proof.step for proof in run.proofs if proof.retired and proof.step is not None}


def _good_steps(run: RunRecord) -> frozenset[int]:
    if run.proofs:
        return frozenset(_verified(run) | _retired(run))
    return frozenset(event.step for event in run.reading.checkpoints if event.committed)


def _shows(run: RunRecord, step: int) -> bool:
    """Whether a log holds the part in which a step's checkpoint would be announced."""
    reading = run.reading
    begun = not reading.steps.is_empty() and int(reading.steps["step"].min() or 0) <= step  # type: ignore[arg-type]
    return begun and _is_whole(run)


def _is_whole(run: RunRecord) -> bool:
    return run.reading.coverage.complete and not run.reading.coverage.gaps


def _broken(name: str, run: RunRecord) -> list[str]:
    if not run.proofs:
        if not _is_whole(run):  # the commit may stand in what is missing
            return []
        lost = [event.step for event in run.reading.checkpoints if event.committed is False]
        return [f"{name}, step {step}: the run ended before it was committed" for step in lost]
    failed: dict[int | None, CheckpointProof] = {proof.step: proof for proof in run.proofs if not proof.ok}
    problems = []
    for step in sorted(_announced(run) - _verified(run) - _retired(run), key=lambda step: -1 if step is None else step):
        proof = failed.get(step)
        if proof is None:
            why = "announced in the log, but not found in the run's folder"
        else:
            why = proof.problems[0].message if proof.problems else "the verification failed"
        problems.append(f"{name}, step {step}: {why}")
    return problems


def _cell(arm: ArmRuns, saved: Saved) -> Cell:
    if not saved.announced:
        return Cell(text="" if arm.dead else "none")
    if saved.proved:
        retired = f", {saved.retired} retired" if saved.retired else ""
        text = f"{saved.verified} of {saved.announced} verified{retired}"
        return Cell(value=float(saved.verified), text=text, source=saved.source)
    if saved.invisible == saved.announced:
        text = f"{saved.announced} announced, commit not visible from this host"
        return Cell(text=text, source=saved.source)
    text = f"{saved.committed} of {saved.announced} committed"
    return Cell(value=float(saved.committed), text=text, source=saved.source)


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
        if not candidate.proved and (
            cut := [step for step in lacking if not all(_shows(r, step) for r in arms[1].runs)]
        ):
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
    told = describe_content(found)
    if found.problem or found.equal:
        return "same", f"{reason}; {told}"
    if proved:
        return "changed", f"{told}, though the arms are proved to train the same bits"
    return "same", f"{reason}; {told}: told, not judged, as nothing proves that the arms train the same bits"


def describe_content(found: CheckpointDifference) -> str:
    """`step 9 holds the same bits on both sides (39 arrays)`; or how many differ, or why that is not known."""
    if found.problem:
        return f"not compared: {found.problem}"
    if found.equal:
        return f"step {found.step} holds the same bits on both sides ({_name_arrays(len(found.compared))})"
    first = found.differing[0]
    name = (first.names or first.other_names)[0]
    what = f"largest difference {first.values.largest:.3g}" if first.values else "which one side lacks"
    return f"{_name_arrays(len(found.differing))} of step {found.step} differ, first {name} ({what})"


def _name_arrays(arrays: int) -> str:
    """`1 array`, `39 arrays`."""
    return f"{arrays} array{'' if arrays == 1 else 's'}"
