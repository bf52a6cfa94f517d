"""Turns proofs (the results of verifying checkpoints) into one headline, a Markdown summary and rows of a table."""

from collections import Counter
from collections.abc import Sequence

from tasks.publish.content.save_timeline import show_rate
from tasks.publish.markdown.artifacts import MAX_TEXT_LENGTH, draw_table, escape_markdown
from tasks.records import LEVELS, CheckpointProof, highest
from tasks.records.text import shorten, visible


def proofs_headline(proofs: Sequence[CheckpointProof]) -> str:
    """Return a headline such as `2 of 40 checkpoints not sound`, or `40 checkpoints, all sound`."""
    wrong = len(list_wrong(proofs))
    count = f"{len(proofs)} checkpoint{'' if len(proofs) == 1 else 's'}"
    return f"{wrong} of {count} not sound" if wrong else f"{count}, all sound"


def list_wrong(proofs: Sequence[CheckpointProof]) -> list[CheckpointProof]:
    """Return the proofs that failed, without those of retired checkpoints."""
    return [proof for proof in proofs if not proof.ok and not proof.retired]


def proofs_markdown(proofs: Sequence[CheckpointProof]) -> str:
    """Return problems, then the number of checkpoints per highest proved level, as Markdown for both Prefect UIs."""
    wrong = list_wrong(proofs)
    blocks = [f"# {'✗' if wrong else '✓'} {proofs_headline(proofs)}"]
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


def _row(proof: CheckpointProof) -> dict[str, str]:
    read = proof.timings.get("manifest", 0.0)
    problems = "; ".join(f"{p.check}: {p.path}: {p.message}" for p in proof.problems)
    return {
        "checkpoint": visible(proof.path),
        "state": "✓ sound" if proof.ok else "= retired" if proof.retired else "✗ not sound",
        "level": highest(proof.levels) or "—",
        "arrays": str(proof.arrays),
        "MB": f"{proof.bytes / 1e6:.1f}",
        "seconds": f"{proof.seconds:.2f}",
        "content": show_rate(proof.bytes / read) if read else "—",
        "committed": proof.committed_at or "—",
        "verified": proof.verified_at,
        "why": shorten(visible(problems), MAX_TEXT_LENGTH) or "—",
    }
