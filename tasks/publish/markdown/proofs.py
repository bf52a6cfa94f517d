"""Turns proofs (the results of verifying checkpoints) into one headline, a Markdown summary and rows of a table."""

from collections import Counter
from collections.abc import Sequence

from tasks.publish.content.amounts import show_rate
from tasks.publish.markdown.elements import MAX_TEXT_LENGTH, draw_table, escape_markdown
from tasks.records.checkpoint_proof import LEVELS, CheckpointProof, highest
from tasks.records.text import counted, shorten, visible


def proofs_headline(proofs: Sequence[CheckpointProof]) -> str:
    """Return a headline such as `2 of 40 checkpoints not sound`, `40 checkpoints, all sound` or `38 of 40 … sound`."""
    wrong, sound = len(list_wrong(proofs)), sum(proof.is_sound for proof in proofs)
    count = counted(len(proofs), "checkpoint")
    if wrong or not proofs:
        return f"{wrong} of {count} not sound" if wrong else "no checkpoint"
    return f"{count}, all sound" if sound == len(proofs) else f"{sound} of {count} sound"


def list_wrong(proofs: Sequence[CheckpointProof]) -> list[CheckpointProof]:
    """Return the proofs that failed, without those of retired checkpoints."""
    return [proof for proof in proofs if not proof.ok and not proof.retired]


def proofs_markdown(proofs: Sequence[CheckpointProof]) -> str:
    """Return problems, then the number of checkpoints per highest proved level, as Markdown for both Prefect UIs."""
    wrong = list_wrong(proofs)
    sound = any(proof.is_sound for proof in proofs) and all(proof.is_sound or proof.retired for proof in proofs)
    blocks = [f"# {'✗' if wrong else '✓' if sound else '–'} {proofs_headline(proofs)}"]
    if wrong:
        blocks.append("\n".join(f"- **{escape_markdown(proof.path)}**: {_problems(proof)}" for proof in wrong))
    reached = Counter(level for proof in proofs if (level := highest(proof.levels)))
    rows = [[level, str(reached[level]), LEVELS[level].proves] for level in LEVELS if reached[level]]
    return "\n\n".join([*blocks, draw_table(["highest level reached", "checkpoints", "proves"], "lrl", rows)]) + "\n"


def _problems(proof: CheckpointProof) -> str:
    return "; ".join(escape_markdown(f"{p.check}: {p.path}: {p.message}") for p in proof.problems)


def proof_rows(proofs: Sequence[CheckpointProof]) -> list[dict[str, str]]:
    """Return one row per proof for a table artifact, those of `list_wrong` first; every value is a string."""
    return [_row(proof) for proof in sorted(proofs, key=lambda proof: (proof.ok or proof.retired, proof.path))]


def _show_state(proof: CheckpointProof) -> str:
    if proof.retired and not proof.ok:
        return "= retired"
    return "✓ sound" if proof.is_sound else "– not checked" if proof.ok else "✗ not sound"


def _row(proof: CheckpointProof) -> dict[str, str]:
    read = proof.timings.get("manifest", 0.0)
    problems = "; ".join(f"{p.check}: {p.path}: {p.message}" for p in proof.problems)
    return {
        "checkpoint": visible(proof.path),
        "state": _show_state(proof),
        "level": highest(proof.levels) or "—",
        "arrays": str(proof.arrays),
        "MB": f"{proof.bytes / 1e6:.1f}",
        "seconds": f"{proof.seconds:.2f}",
        "content": show_rate(proof.bytes / read) if read else "—",
        "committed": proof.committed_at or "—",
        "verified": proof.verified_at,
        "why": shorten(visible(problems), MAX_TEXT_LENGTH) or "—",
    }
