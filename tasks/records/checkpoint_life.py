"""One save of a step from its announcement to its proofs, combined from log and store."""

from collections.abc import Iterable

from configs.schema import Frozen
from tasks.records.checkpoint import CheckpointEvent, CheckpointProof
from tasks.records.proof_levels import Level, highest
from tasks.records.source import run_number

type Save = tuple[CheckpointEvent | None, CheckpointProof | None]


class LifeSpan(Frozen):
    """A part of a checkpoint's life: its duration, and the bytes per second if known."""

    part: str  # "blocking", "background", or the name of a check
    begin_s: float  # after the begin of its run
    seconds: float
    bytes_per_s: float | None = None


class CheckpointLife(Frozen):
    """One save of one step. Seconds count from the begin of its run; None if undated."""

    step: int | None
    nth: int = 1  # number of this save among its run's saves of the step
    overwritten: bool = False  # its run saved the step again
    retired: bool = False  # deleted by a checkpoint manager that keeps only the newest
    announced_s: float | None = None
    committed_s: float | None = None
    spans: tuple[LifeSpan, ...] = ()
    levels: tuple[Level, ...] = ()  # reached, in order
    run: int = run_number()

    @property
    def level(self) -> Level | None:
        """The highest level reached."""
        return highest(self.levels)


def pair_saves(events: Iterable[CheckpointEvent], proofs: Iterable[CheckpointProof]) -> list[Save]:
    """Return each save in a log with its proof, in log order, then proofs without a save in the log.

    A step that was saved repeatedly exists once in the store, so its newest proof belongs to its newest save.
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
    """Whether proof and event have the same path, which separates repeats; either path may be absolute."""
    if event.path is None:
        return True
    one, other = proof.path.rstrip("/"), event.path.rstrip("/")
    return one.endswith(other) or other.endswith(one)
