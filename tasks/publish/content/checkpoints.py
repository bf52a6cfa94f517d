"""Combines an arm's log with the proofs of its checkpoints: one line per restore, save and unmentioned checkpoint.

An arm is one of the two compared versions; a proof is the result of verifying a checkpoint.
"""

from collections import Counter
from typing import Literal

from configs.frozen import Frozen
from tasks.records.checkpoint_proof import LEVELS, CheckpointEvent, CheckpointProof, Level, Restore, highest, pair_saves
from tasks.records.compared_case import ArmSummary, Verdict
from tasks.records.shared_fields import Source
from tasks.records.text import counted, visible

State = Literal["proved", "damaged", "uncommitted", "committed", "unproved", "retired", "overwritten"]

# state -> (the verdict whose sign and colour it has, word)
STATES: dict[State, tuple[Verdict, str]] = {
    "proved": ("improved", "proved"),
    "damaged": ("regressed", "damaged"),
    "uncommitted": ("regressed", "never committed"),
    "committed": ("same", "committed"),
    "unproved": ("unknown", "not proved"),
    "retired": ("same", "retired"),
    "overwritten": ("same", "overwritten"),
}


class CheckpointLine(Frozen):
    """One save or restore of a checkpoint, or a checkpoint that the log does not mention."""

    step: str  # "?" if unknown
    run: int  # counted from 1; 0 if the arm has one run
    path: str  # empty if unknown
    state: State
    log: str  # the state of the checkpoint according to the log, in words
    proof: str  # the result of its proof, in words
    problems: tuple[str, ...] = ()
    source: Source | None = None  # the line of the log; None if the log does not mention the checkpoint
    level: Level | None = None  # the highest proved level; None if there is none

    @property
    def word(self) -> str:
        """Return the state in words and the level in brackets; only the level if the state is proved or committed."""
        word = STATES[self.state][1]
        if self.level is None:
            return word
        return self.level if self.state in ("proved", "committed") else f"{word} ({self.level})"

    @property
    def meaning(self) -> str:
        """Return the meaning of the level; empty without a level."""
        return LEVELS[self.level].proves if self.level else ""


def list_checkpoints(arm: ArmSummary, *, timeline: bool = False) -> list[CheckpointLine]:
    """Return an arm's restores, then its saves in the order of the log, then checkpoints that the log does not mention.

    `timeline`: omit seconds, because the page shows them on a timeline.
    """
    levels = {(life.run, life.step, life.nth): life.level for life in arm.lives}
    pairs = pair_saves(arm.checkpoints, arm.proofs)
    newest = {_key(*pair): place for place, pair in enumerate(pairs)}
    seen: Counter[tuple[int, int | None]] = Counter()
    lines = [_restored_line(restore) for restore in arm.restores]
    timed = timeline and bool(arm.lives)
    for place, pair in enumerate(pairs):
        key = _key(*pair)
        seen[key] += 1
        line = _line(*pair, levels.get((*key, seen[key])), timed=timed)
        saved_again = newest[key] != place and arm.lives
        lines.append(line.replace(state="overwritten") if saved_again else line)
    return [line if len(arm.runs) > 1 else line.replace(run=0) for line in lines]


def _key(event: CheckpointEvent | None, proof: CheckpointProof | None) -> tuple[int, int | None]:
    """Return (run, step) of a save."""
    either = event or proof
    assert either is not None  # pair_saves makes no empty pairs
    return either.run, either.step


def _line(
    event: CheckpointEvent | None, proof: CheckpointProof | None, level: Level | None, *, timed: bool
) -> CheckpointLine:
    run, step = _key(event, proof)
    path = (proof.path if proof is not None else None) or (event.path if event is not None else None) or ""
    return CheckpointLine(
        step="?" if step is None else str(step),
        run=run + 1,
        path=visible(path),
        state=_state(event, proof),
        log=_log_words(event, proof, timed=timed),
        proof=_proof_words(proof),
        problems=tuple(visible(f"{p.check}: {p.path}: {p.message}") for p in proof.problems) if proof else (),
        source=Source(line=event.line, offset=event.offset, run=event.run) if event is not None else None,
        level=level or (highest(proof.levels) if proof is not None else None),
    )


def _restored_line(restore: Restore) -> CheckpointLine:
    return CheckpointLine(
        step="?" if restore.step is None else str(restore.step),
        run=restore.run + 1,
        path=visible(restore.path or ""),
        state="committed",  # only committed checkpoints can be restored
        log=visible(f"restored {restore.summary}"),
        proof="what this run went on from",
        source=Source(line=restore.line, offset=restore.offset, run=restore.run),
    )


def _state(event: CheckpointEvent | None, proof: CheckpointProof | None) -> State:
    if (proof is not None and proof.retired) or (proof is None and event is not None and event.retired_line):
        return "retired"
    if proof is not None and not proof.ok:
        return "damaged"
    if proof is not None and proof.is_sound:
        return "proved"
    if event is not None and event.committed is not None:
        return "committed" if event.committed else "uncommitted"
    return "unproved"


def _log_words(event: CheckpointEvent | None, proof: CheckpointProof | None, *, timed: bool) -> str:
    """Return the state according to the log, without an array count that the proof confirms. timed: omit seconds."""
    if event is None:
        return "not mentioned"
    parts = [event.summary]
    confirmed = proof is not None and proof.arrays == event.arrays
    parts += [counted(event.arrays, "array")] if event.arrays is not None and not confirmed else []
    seconds = ((event.blocking_s, "blocking"), (event.background_s, "in the background"))
    parts += [f"{value:.2f} s {where}" for value, where in seconds if value is not None and not timed]
    return ", ".join(parts)


def _proof_words(proof: CheckpointProof | None) -> str:
    if proof is None:
        return "files not at hand: the log's word only"
    if proof.retired:
        return "gone by the time it was to be verified: newer ones are there"
    parts = [f"checked {', '.join(proof.checks)}"]
    parts += [counted(proof.arrays, "array")] if proof.arrays else []
    parts += [f"{counted(proof.files, 'file')}, {_size(proof.bytes)}"] if proof.files else []
    parts += [f"tree {visible(proof.tree_digest)[:12]}"] if proof.tree_digest else []
    return ", ".join(parts)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}" if unit != "B" else f"{count} B"
        size /= 1000
    return f"{size:.3g} TB"
