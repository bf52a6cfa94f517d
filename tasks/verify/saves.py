"""Combines the saves in an arm's logs with the proofs of its checkpoints: a summary, and a timeline of each save.

An arm is one side of a comparison; a proof is the result of verifying one checkpoint.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import inf

from configs.frozen import Frozen
from tasks.records.checkpoint_proof import CheckpointEvent, CheckpointLife, CheckpointProof, Level, LifeSpan, pair_saves
from tasks.records.run import RunRecord
from tasks.records.run_facts import seconds_between
from tasks.records.shared_fields import Source

_PERIOD = "checkpoint_period"  # config key of maxview's trainer and of MaxText: steps between two saves
_QUARTER_S = 900  # offsets between time zones are multiples of 15 minutes


class Saved(Frozen):
    """The checkpoints of one arm. Counts are sums over the arm's runs."""

    announced: int  # steps that a run's log or proofs name
    verified: int  # steps with a proof that is `ok`
    retired: int  # steps without such a proof that a checkpoint manager deleted; it keeps only the newest ones
    committed: int  # saves whose commit the log shows
    invisible: int  # saves without a known outcome: the host prints no commits, or the log is cut
    # steps that are verified or retired (in a run without proofs: committed) in every run; without saves at a stop
    steps: frozenset[int]
    broken: tuple[str, ...]  # problems, one sentence each
    has_proofs: bool  # whether any run has a proof, `ok` or not
    begun: float  # all logs of the arm are complete from this step on; inf if a log has missing parts or no steps
    source: Source | None  # position of the first save in its log; None without a save

    @property
    def valid(self) -> float | None:
        """The number of verified steps, or without proofs, of committed saves; None if no outcome is known."""
        if self.has_proofs:
            return float(self.verified)
        return None if self.invisible == self.announced else float(self.committed)

    @property
    def summary(self) -> str:
        """`2 of 3 verified, 1 retired`; without proofs, `2 of 3 committed`, or `3 announced, …` if `valid` is None."""
        if self.has_proofs:
            retired = f", {self.retired} retired" if self.retired else ""
            return f"{self.verified} of {self.announced} verified{retired}"
        if self.valid is None:
            return f"{self.announced} announced, commit not visible from this host"
        return f"{self.committed} of {self.announced} committed"


def read_saved(runs: Sequence[RunRecord], name_run: Callable[[int], str]) -> Saved:
    """Return the summary of an arm's checkpoints. name_run: number of a run → its name in problems."""
    events = [(number, event) for number, run in enumerate(runs) for event in run.reading.checkpoints]
    first = [Source(line=event.line, offset=event.offset, run=number) for number, event in events[:1]]
    return Saved(
        announced=sum(len(_announced(run)) for run in runs),
        verified=sum(len(_verified(run)) for run in runs),
        retired=sum(len(_retired(run) - _verified(run)) for run in runs),
        committed=sum(event.committed is True for _, event in events),
        invisible=sum(event.committed is None for _, event in events),
        steps=frozenset.intersection(*map(_good_steps, runs)),
        broken=tuple(p for number, run in enumerate(runs) for p in _broken(name_run(number), run)),
        has_proofs=any(run.proofs for run in runs),
        begun=max(_first_complete_step(run) for run in runs),
        source=first[0] if first else None,
    )


def _announced(run: RunRecord) -> set[int | None]:
    return {event.step for event in run.reading.checkpoints} | {proof.step for proof in run.proofs}


def _verified(run: RunRecord) -> set[int]:
    return {proof.step for proof in run.proofs if proof.ok and proof.step is not None}


def _retired(run: RunRecord) -> set[int]:
    """Return the committed steps that a checkpoint manager deleted, according to the log or to a proof.

    A step without a newer one is lost: nothing resumes there.
    """
    retired = {event.step for event in run.reading.checkpoints if event.retired_line is not None and event.committed}
    # steps with a save that was not deleted
    kept = {event.step for event in run.reading.checkpoints if event.retired_line is None}
    newest = max(kept | _verified(run), default=-1)
    gone = {step for step in retired - kept if step < newest}
    return gone | {proof.step for proof in run.proofs if proof.retired and proof.step is not None}


def _good_steps(run: RunRecord) -> frozenset[int]:
    if run.proofs:
        return frozenset((_verified(run) | _retired(run)) - _saved_at_stops(run))
    return frozenset(event.step for event in run.reading.checkpoints if event.committed) - _saved_at_stops(run)


def _saved_at_stops(run: RunRecord) -> set[int]:
    """Return the steps from which a run resumed and that are not periodic: the run saved them because it stopped.

    An uninterrupted run has no such steps.
    """
    period = str(run.plan.config.get(_PERIOD) if run.plan is not None else run.reading.config.get(_PERIOD))
    if not period.isdigit() or not int(period):
        return set()
    restored = {restore.step for restore in run.reading.restores if restore.origin == "this run"}
    return {step for step in restored if step is not None and step % int(period)}


def _first_complete_step(run: RunRecord) -> float:
    """Return the first step in a complete log; inf if parts of the log are missing or it has no steps."""
    first = run.reading.steps["step"].min() if _has_complete_log(run) else None
    return float(first) if isinstance(first, int) else inf


def _has_complete_log(run: RunRecord) -> bool:
    return run.reading.coverage.complete and not run.reading.coverage.gaps


def _broken(name: str, run: RunRecord) -> list[str]:
    if not run.proofs:
        if not _has_complete_log(run):  # the missing part may contain the commit
            return []
        uncommitted = [event.step for event in run.reading.checkpoints if event.committed is False]
        return [f"{name}, step {step}: the run ended before it was committed" for step in uncommitted]
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


def lives_of(runs: Iterable[RunRecord], others: Iterable[RunRecord] = ()) -> tuple[CheckpointLife, ...]:
    """Return the timeline of every save of an arm's runs: per run, the saves in its log, then the other proofs.

    others: runs that may have restored one of these saves."""
    continued = set(_continued_saves(others))
    return tuple(life for number, run in enumerate(runs) for life in _lives_of_run(run, number, continued))


def _continued_saves(runs: Iterable[RunRecord]) -> Iterable[tuple[str, int]]:
    """Yield (name of the saving run, step) of each checkpoint from which `runs` continued with equal losses."""
    for run in runs:
        crossing = run.program.get("cross_restore")
        if isinstance(crossing, dict) and crossing.get("holds") is True:
            yield str(crossing.get("from")), int(crossing.get("restored_step") or 0)


def _lives_of_run(run: RunRecord, number: int, continued: set[tuple[str, int]]) -> list[CheckpointLife]:
    pairs = pair_saves(run.reading.checkpoints, run.proofs)
    zero = run.reading.started or next((t for e, p in pairs if (t := _begun(e, p))), None)
    newest = {_step(event, proof): place for place, (event, proof) in enumerate(pairs)}
    seen: Counter[int | None] = Counter()
    lives = []
    for place, (event, proof) in enumerate(pairs):
        step = _step(event, proof)
        seen[step] += 1
        overwritten = newest[step] != place
        name = run.plan.run_name if run.plan else run.reading.name
        life = _life(event, proof, zero, goes_on=not overwritten and (name, step) in continued)
        lives.append(life.replace(nth=seen[step], overwritten=overwritten, run=number))
    return lives


def _step(event: CheckpointEvent | None, proof: CheckpointProof | None) -> int | None:
    return event.step if event is not None else proof.step if proof is not None else None


def _begun(event: CheckpointEvent | None, proof: CheckpointProof | None) -> str | None:
    return (event.started if event else None) or (proof.begun_at if proof else None)


def _life(
    event: CheckpointEvent | None, proof: CheckpointProof | None, zero: str | None, *, goes_on: bool
) -> CheckpointLife:
    shift = _clock_shift(event, proof)
    announced = _after(zero, event.started, shift) if event and event.started else None
    committed = _after(zero, proof.committed_at) if proof and proof.committed_at else None
    if committed is None and event and event.committed_at:
        committed = _after(zero, event.committed_at, shift)
    if announced is None and proof:
        announced = _after(zero, proof.begun_at)
    size = proof.bytes if proof else 0
    spans = [*_save_spans(event, announced, size), *(_proof_spans(proof, zero) if proof else ())]
    return CheckpointLife(
        step=_step(event, proof),
        retired=bool((event and event.retired_line is not None) or (proof and proof.retired)),
        announced_s=announced,
        committed_s=committed,
        spans=tuple(spans),
        levels=_levels(event, proof, goes_on=goes_on),
    )


def _after(zero: str | None, moment: str | None, shift: float = 0.0) -> float | None:
    seconds = seconds_between(zero, moment)
    return None if seconds is None else round(seconds + shift, 3)


def _clock_shift(event: CheckpointEvent | None, proof: CheckpointProof | None) -> float:
    """Return the seconds to add to the log's times so that they have the store's time zone.

    Log and store both record the commit time: the difference, rounded to _QUARTER_S, is the offset. 0 if either time is
    missing.
    """
    if event is None or proof is None:
        return 0.0
    apart = seconds_between(event.committed_at, proof.committed_at)
    return 0.0 if apart is None else _QUARTER_S * round(apart / _QUARTER_S)


def _save_spans(event: CheckpointEvent | None, announced: float | None, size: int) -> list[LifeSpan]:
    """Return the known spans of a save, blocking and background; empty for an undated save. size: in bytes."""
    if event is None or announced is None:
        return []
    spans, blocking = [], event.blocking_s or 0.0
    if event.blocking_s is not None:
        spans.append(LifeSpan(part="blocking", begin_s=announced, seconds=blocking))
    background = event.background_s
    if background is None and event.total_s is not None:
        background = max(event.total_s - blocking, 0.0)
    if background:
        rate = size / background if size else None
        spans.append(
            LifeSpan(part="background", begin_s=round(announced + blocking, 3), seconds=background, bytes_per_s=rate)
        )
    return spans


def _proof_spans(proof: CheckpointProof, zero: str | None) -> list[LifeSpan]:
    """Return the spans of the proof's checks, assumed to run one after the other until `verified_at`."""
    end = _after(zero, proof.verified_at or None)
    if end is None:
        return []
    begin, spans = end - sum(proof.timings.values()), []
    for check, seconds in proof.timings.items():
        reads = check in ("manifest", "values") and seconds > 0
        rate = proof.bytes / seconds if reads else None
        spans.append(LifeSpan(part=check, begin_s=round(begin, 3), seconds=seconds, bytes_per_s=rate))
        begin += seconds
    return spans


def _levels(event: CheckpointEvent | None, proof: CheckpointProof | None, *, goes_on: bool) -> tuple[Level, ...]:
    """Return the levels of proof that a save reached: by its proof; without a proof or if retired, by the log."""
    announced: tuple[Level, ...] = ("announced",) if event is not None else ()
    if proof is None or proof.retired:
        committed: tuple[Level, ...] = ("committed",) if event is not None and event.committed else ()
        return announced + committed
    return announced + proof.levels + (("restored and continued",) if goes_on and proof.ok else ())
