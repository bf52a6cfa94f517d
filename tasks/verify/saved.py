"""Summarises the checkpoints of an arm, from its logs and proofs: counts, steps that exist, and problems."""

from collections.abc import Callable, Sequence
from math import inf

from configs.schema import Frozen
from tasks.records import CheckpointProof, RunRecord, Source

PERIOD = "checkpoint_period"  # config key of maxview's trainer and of MaxText: steps between two saves
THIS_RUN = "this run"  # `Restore.origin` of a checkpoint that the same run saved


class Saved(Frozen):
    """The checkpoints of one arm. Counts are sums over its runs."""

    announced: int  # steps that a log or a proof names
    verified: int  # steps with a proof that is `ok`
    retired: int  # deleted by a checkpoint manager that keeps only its newest ones
    committed: int  # saves whose commit the log shows
    invisible: int  # saves in the log of a host that does not print commits
    steps: frozenset[int]  # steps that every run verified or retired; for runs without proofs, committed by the log
    broken: tuple[str, ...]  # problems, one sentence each
    proved: bool  # whether any checkpoint of this arm was verified
    begun: float  # first step from which all logs of the arm are complete; inf: one has missing parts
    source: Source | None  # position of the first save; None without any

    @property
    def counted(self) -> float | None:
        """The number of checkpoints that exist, by proof or else by log; None if no log can show a commit."""
        if self.proved:
            return float(self.verified)
        return None if self.invisible == self.announced else float(self.committed)

    @property
    def summary(self) -> str:
        """`2 of 3 verified, 1 retired`; if nothing was verified, the number of commits in the logs."""
        if self.proved:
            retired = f", {self.retired} retired" if self.retired else ""
            return f"{self.verified} of {self.announced} verified{retired}"
        if self.counted is None:
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
        proved=any(run.proofs for run in runs),
        begun=max(_begun(run) for run in runs),
        source=first[0] if first else None,
    )


def _announced(run: RunRecord) -> set[int | None]:
    return {event.step for event in run.reading.checkpoints} | {proof.step for proof in run.proofs}


def _verified(run: RunRecord) -> set[int]:
    return {proof.step for proof in run.proofs if proof.ok and proof.step is not None}


def _retired(run: RunRecord) -> set[int]:
    """Return the committed steps that a checkpoint manager deleted, according to the log or to a proof."""
    retired = {event.step for event in run.reading.checkpoints if event.retired_line is not None and event.committed}
    # steps with a save that was not deleted
    kept = {event.step for event in run.reading.checkpoints if event.retired_line is None}
    return (retired - kept) | {proof.step for proof in run.proofs if proof.retired and proof.step is not None}


def _good_steps(run: RunRecord) -> frozenset[int]:
    if run.proofs:
        return frozenset((_verified(run) | _retired(run)) - _saved_at_stops(run))
    return frozenset(event.step for event in run.reading.checkpoints if event.committed) - _saved_at_stops(run)


def _saved_at_stops(run: RunRecord) -> set[int]:
    """Return the steps between two periodic saves that a run saved when it stopped, and resumed from.

    An uninterrupted run has no such checkpoints.
    """
    period = str(run.plan.config.get(PERIOD) if run.plan is not None else run.reading.config.get(PERIOD))
    if not period.isdigit() or not int(period):
        return set()
    restored = {restore.step for restore in run.reading.restores if restore.origin == THIS_RUN}
    return {step for step in restored if step is not None and step % int(period)}


def _begun(run: RunRecord) -> float:
    """Return the first step in a complete log; inf if parts of the log are missing."""
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
