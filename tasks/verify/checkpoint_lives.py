"""Combines the saves in an arm's logs with the proofs in the store into a timeline of each save."""

from collections import Counter
from collections.abc import Iterable

from tasks.records import (
    CheckpointEvent,
    CheckpointLife,
    CheckpointProof,
    Level,
    LifeSpan,
    RunRecord,
    pair_saves,
    seconds_between,
)

QUARTER_S = 900  # offsets between time zones are multiples of 15 minutes


def lives_of(runs: Iterable[RunRecord], others: Iterable[RunRecord] = ()) -> tuple[CheckpointLife, ...]:
    """Return every save of an arm's runs, in log order. others: runs that may have restored one of these saves."""
    continued = set(_continued(others))
    return tuple(life for number, run in enumerate(runs) for life in _lives_of_run(run, number, continued))


def _continued(runs: Iterable[RunRecord]) -> Iterable[tuple[str, int]]:
    """Yield (name of the saving run, step) of each checkpoint from which one of `runs` continued with equal losses."""
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
        lives.append(life.model_copy(update={"nth": seen[step], "overwritten": overwritten, "run": number}))
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
    spans = [*_saving(event, announced, size), *(_proving(proof, zero) if proof else ())]
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

    Both record the commit time, so their difference, rounded to QUARTER_S, is the offset; 0 if either is missing."""
    if event is None or proof is None:
        return 0.0
    apart = seconds_between(event.committed_at, proof.committed_at)
    return 0.0 if apart is None else QUARTER_S * round(apart / QUARTER_S)


def _saving(event: CheckpointEvent | None, announced: float | None, size: int) -> list[LifeSpan]:
    """Return the blocking and the background span of a save; empty if it is undated. size: bytes of the checkpoint."""
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


def _proving(proof: CheckpointProof, zero: str | None) -> list[LifeSpan]:
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
    """Return the levels of proof that a save reached; without a proof, or if it was retired, from the log."""
    announced: tuple[Level, ...] = ("announced",) if event is not None else ()
    if proof is None or proof.retired:
        committed: tuple[Level, ...] = ("committed",) if event is not None and event.committed else ()
        return announced + committed
    return announced + proof.levels + (("restored and continued",) if goes_on and proof.ok else ())
