"""Records of one save of a checkpoint over time, from its announcement in the log to its proof in the store."""

from collections.abc import Iterable

from configs.schema import Frozen
from tasks.records.checkpoint import CheckpointEvent, CheckpointProof
from tasks.records.proof_levels import Level, highest
from tasks.records.source import run_number

type Save = tuple[CheckpointEvent | None, CheckpointProof | None]


class LifeSpan(Frozen):
    """One activity in the life of a checkpoint. `bytes_per_s` is None if unknown or if no data is transferred."""

    part: str  # "blocking", "background", or the name of a check
    begin_s: float  # seconds after the begin of the run
    seconds: float
    bytes_per_s: float | None = None


class CheckpointLife(Frozen):
    """One save of one step. `*_s`: seconds after the begin of the run; None if the log or store has no date."""

    step: int | None
    nth: int = 1  # 2 for the second save of the same step in a run, etc.
    overwritten: bool = False  # the run saved the step again later
    retired: bool = False  # deleted by a checkpoint manager that keeps only the newest
    announced_s: float | None = None
    committed_s: float | None = None
    spans: tuple[LifeSpan, ...] = ()
    levels: tuple[Level, ...] = ()  # levels of proof reached, in order
    run: int = run_number()

    @property
    def level(self) -> Level | None:
        """The highest level of proof reached; None without any."""
        return highest(self.levels)


def pair_saves(events: Iterable[CheckpointEvent], proofs: Iterable[CheckpointProof]) -> list[Save]:
    """Return (save, proof or None) for each save in a log, in log order, then (None, proof) for the remaining proofs.

    The store contains only the last save of a step, so the newest proof belongs to the last save.
    """
    waiting = list(proofs)
    pairs: list[Save] = []
    for event in reversed(list(events)):
        fits = [p for p in waiting if (p.step, p.run) == (event.step, event.run) and _same_place(p, event)]
        if fits:
            waiting.remove(fits[-1])
        pairs.append((event, fits[-1] if fits else None))
    return [*reversed(pairs), *((None, proof) for proof in waiting)]


def _same_place(proof: CheckpointProof, event: CheckpointEvent) -> bool:
    """Whether both paths may be the same, which distinguishes an arm's runs. One of the paths may be relative."""
    if event.path is None:
        return True
    one, other = proof.path.rstrip("/"), event.path.rstrip("/")
    return one.endswith(other) or other.endswith(one)
