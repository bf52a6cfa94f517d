"""Turns what an arm's log and the verifier say of its checkpoints into one line per checkpoint step."""

from typing import Literal

from configs.schema import Frozen
from tasks.publish.text import visible
from tasks.records import ArmSummary, CheckpointEvent, CheckpointProof, Restore, Source, Verdict

State = Literal["proved", "damaged", "uncommitted", "committed", "unproved"]

# how a state is coloured and signed: as the verdict that it would be
STATES: dict[State, tuple[Verdict, str]] = {
    "proved": ("improved", "proved"),
    "damaged": ("regressed", "damaged"),
    "uncommitted": ("regressed", "never committed"),
    "committed": ("same", "committed"),
    "unproved": ("unknown", "not proved"),
}


class CheckpointLine(Frozen):
    """One checkpoint of one arm: what its log tells, what the proof found, and where the log tells it."""

    step: str
    path: str
    state: State
    log: str
    proof: str
    problems: tuple[str, ...] = ()
    source: Source | None = None


def list_checkpoints(arm: ArmSummary) -> list[CheckpointLine]:
    """What an arm's runs went on from, its checkpoints in the order of its log, and what only the verifier saw."""
    waiting = list(arm.proofs)
    lines = [_restored_line(restore) for restore in arm.restores]
    for event in arm.checkpoints:
        proof = next((p for p in waiting if (p.step, p.run) == (event.step, event.run) and _same_place(p, event)), None)
        if proof is not None:
            waiting.remove(proof)
        lines.append(_line(event, proof))
    return lines + [_line(None, proof) for proof in waiting]


def _same_place(proof: CheckpointProof, event: CheckpointEvent) -> bool:
    """Repeats save the same steps: the path tells them apart; either side may have it absolute."""
    if event.path is None:
        return True
    one, other = proof.path.rstrip("/"), event.path.rstrip("/")
    return one.endswith(other) or other.endswith(one)


def _line(event: CheckpointEvent | None, proof: CheckpointProof | None) -> CheckpointLine:
    step = event.step if event is not None else (proof.step if proof is not None else None)
    path = (proof.path if proof is not None else None) or (event.path if event is not None else None) or ""
    return CheckpointLine(
        step="?" if step is None else str(step),
        path=visible(path),
        state=_state(event, proof),
        log=_log_words(event),
        proof=_proof_words(proof),
        problems=tuple(visible(f"{p.check}: {p.path}: {p.message}") for p in proof.problems) if proof else (),
        source=Source(line=event.line, offset=event.offset, run=event.run) if event is not None else None,
    )


def _restored_line(restore: Restore) -> CheckpointLine:
    return CheckpointLine(
        step="?" if restore.step is None else str(restore.step),
        path=visible(restore.path or ""),
        state="committed",  # nothing else can be read back
        log=visible(f"restored {restore.told}"),
        proof="what this run went on from",
        source=Source(line=restore.line, offset=restore.offset, run=restore.run),
    )


def _state(event: CheckpointEvent | None, proof: CheckpointProof | None) -> State:
    if proof is not None:
        return "proved" if proof.ok else "damaged"
    if event is not None and event.committed is not None:
        return "committed" if event.committed else "uncommitted"
    return "unproved"


def _log_words(event: CheckpointEvent | None) -> str:
    if event is None:
        return "not mentioned"
    parts = [event.told]
    parts += [f"{event.arrays} arrays"] if event.arrays is not None else []
    parts += [f"{event.blocking_s:.2f} s blocking"] if event.blocking_s is not None else []
    parts += [f"{event.background_s:.2f} s in the background"] if event.background_s is not None else []
    return ", ".join(parts)


def _proof_words(proof: CheckpointProof | None) -> str:
    if proof is None:
        return "files not at hand: the log's word only"
    parts = [f"checked {', '.join(proof.checks)}"]
    parts += [f"{proof.arrays} arrays"] if proof.arrays else []
    parts += [f"{proof.files} files, {_size(proof.bytes)}"] if proof.files else []
    parts += [f"tree {visible(proof.tree_digest)[:12]}"] if proof.tree_digest else []
    return ", ".join(parts)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "B" else f"{count} B"
        size /= 1000
    return f"{size:.3g} TB"
