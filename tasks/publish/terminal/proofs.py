"""Prints the proofs of checkpoints on the terminal."""

import json
from collections.abc import Sequence

from rich.console import Console

from tasks.records import CheckpointProof, highest
from tasks.records.text import counted, plain


def show_proofs(proofs: Sequence[CheckpointProof], *, as_json: bool) -> None:
    """Print each checkpoint's highest proved level, its checks and its problems."""
    if as_json:
        print(
            json.dumps([proof.model_dump(mode="json") | {"level": highest(proof.levels)} for proof in proofs], indent=1)
        )
        return
    console = Console(highlight=False, soft_wrap=True)
    for proof in proofs:
        level = highest(proof.levels)
        reached = f": {level}" if level else ""
        word = f"[green]✓ sound[/]{reached}" if proof.ok else f"[red]✗ not sound[/]{reached}"
        if proof.retired:
            console.print(f"= retired  {plain(proof.path)}  (gone, and newer ones are there)")
            continue
        counts = f"{counted(proof.arrays, 'array')}, {counted(proof.files, 'file')}"
        size = f"{counts}, {proof.bytes / 1e6:.1f} MB, {proof.seconds:.2f} s"
        console.print(f"{word}  {plain(proof.path)}  ({'; '.join(filter(None, (', '.join(proof.checks), size)))})")
        for problem in proof.problems:
            place = "" if problem.path == "." else f"{plain(problem.path)}: "
            console.print(f"   {problem.check}: {place}{plain(problem.message)}")
