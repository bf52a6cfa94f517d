"""One save of a step from its announcement to its proofs: what a log and a store tell of it, put together."""

from collections.abc import Iterable

from configs.schema import Frozen
from tasks.records.checkpoint import CheckpointEvent, CheckpointProof
from tasks.records.proof_levels import Level, highest
from tasks.records.source import run_number

type Save = tuple[CheckpointEvent | None, CheckpointProof | None]


class LifeSpan(Frozen):
    """A part of a checkpoint's life: how long it took, and how quickly bytes went by where that is known."""

    part: str  # "blocking", "background", or the name of a check
    begin_s: float  # after the beginning of its run
    seconds: float
    bytes_per_s: float | None = None


class CheckpointLife(Frozen):
    """One save of one step. Seconds count from the beginning of its run; None: nothing dates it."""

    step: int | None
    nth: int = 1  # how often its run has saved this step by then
    overwritten: bool = False  # its run saved the step again
    retired: bool = False  # a checkpoint manager deleted it, to keep its newest ones
    announced_s: float | None = None
    committed_s: float | None = None
    spans: tuple[LifeSpan, ...] = ()
    levels: tuple[Level, ...] = ()  # that it reached, in order
    run: int = run_number()

    @property
    def level(self) -> Level | None:
        """The highest level that it reached."""
        return highest(self.levels)


def pair_saves(events: Iterable[CheckpointEvent], proofs: Iterable[CheckpointProof]) -> list[Save]:
    """Each save that a log tells of with its proof, in the log's order, then what only the verification saw.

    A step that was saved again has one place in the store: its newest proof is of its newest save.
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
    """Repeats save the same steps: the path tells them apart; either side may have it absolute."""
    if event.path is None:
        return True
    one, other = proof.path.rstrip("/"), event.path.rstrip("/")
    return one.endswith(other) or other.endswith(one)
