"""Turns the checkpoint events in an arm's logs, and the proofs in the store, into counts, sound steps and problems."""

from collections.abc import Callable, Sequence
from math import inf

from configs.schema import Frozen
from tasks.records import CheckpointProof, RunRecord, Source

PERIOD = "checkpoint_period"  # of our trainer's and MaxText's config
THIS_RUN = "this run"  # origin of a restore, in contrast to another run's checkpoint


class Saved(Frozen):
    """The checkpoints of one arm: counts over all of its runs, steps common to all runs, and problems."""

    announced: int
    verified: int
    retired: int  # deleted by a checkpoint manager that keeps only its newest ones
    committed: int  # by the logs
    invisible: int  # announced by a host that does not print commits
    steps: frozenset[int]  # verified or retired in every run; committed if nothing could be verified
    broken: tuple[str, ...]
    proved: bool  # whether any checkpoint of this arm was verified
    begun: float  # first step from which every log of the arm is complete; inf: a part is missing
    source: Source | None

    @property
    def counted(self) -> float | None:
        """The number of checkpoints that certainly exist; None if this host's log cannot show it."""
        if self.proved:
            return float(self.verified)
        return None if self.invisible == self.announced else float(self.committed)

    @property
    def summary(self) -> str:
        """`2 of 2 verified, 1 retired`; without verification, the counts of the logs."""
        if self.proved:
            retired = f", {self.retired} retired" if self.retired else ""
            return f"{self.verified} of {self.announced} verified{retired}"
        if self.counted is None:
            return f"{self.announced} announced, commit not visible from this host"
        return f"{self.committed} of {self.announced} committed"


def read_saved(runs: Sequence[RunRecord], name_run: Callable[[int], str]) -> Saved:
    """Combine an arm's announcements and proofs, run by run."""
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
        proved=any(run.proofs for run in runs),
        begun=max(_begun(run) for run in runs),
        source=first[0] if first else None,
    )


def _announced(run: RunRecord) -> set[int | None]:
    return {event.step for event in run.reading.checkpoints} | {proof.step for proof in run.proofs}


def _verified(run: RunRecord) -> set[int]:
    return {proof.step for proof in run.proofs if proof.ok and proof.step is not None}


def _retired(run: RunRecord) -> set[int]:
    """Return the steps that a checkpoint manager deleted after their commit, by log or verification."""
    retired = {event.step for event in run.reading.checkpoints if event.retired_line is not None and event.committed}
    # saved again after the deletion, or not deleted
    kept = {event.step for event in run.reading.checkpoints if event.retired_line is None}
    return (retired - kept) | {proof.step for proof in run.proofs if proof.retired and proof.step is not None}


def _good_steps(run: RunRecord) -> frozenset[int]:
    if run.proofs:
        return frozenset((_verified(run) | _retired(run)) - _saved_at_stops(run))
    return frozenset(event.step for event in run.reading.checkpoints if event.committed) - _saved_at_stops(run)


def _saved_at_stops(run: RunRecord) -> set[int]:
    """Return the steps of the extra checkpoints that a stopped run saved between two periods and resumed from.

    An uninterrupted run has no such checkpoints.
    """
    period = str(run.plan.config.get(PERIOD) if run.plan is not None else run.reading.config.get(PERIOD))
    if not period.isdigit() or not int(period):
        return set()
    restored = {restore.step for restore in run.reading.restores if restore.origin == THIS_RUN}
    return {step for step in restored if step is not None and step % int(period)}


def _begun(run: RunRecord) -> float:
    """Return the first step from which a log announces every save."""
    first = run.reading.steps["step"].min() if _is_whole(run) else None
    return float(first) if isinstance(first, int) else inf


def _is_whole(run: RunRecord) -> bool:
    return run.reading.coverage.complete and not run.reading.coverage.gaps


def _broken(name: str, run: RunRecord) -> list[str]:
    if not run.proofs:
        if not _is_whole(run):  # the missing part may contain the commit
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
