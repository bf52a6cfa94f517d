"""Prints what was verified of checkpoints on the terminal."""

import json
from collections.abc import Sequence

from rich.console import Console

from tasks.publish.text import plain
from tasks.records import CheckpointProof


def show_proofs(proofs: Sequence[CheckpointProof], *, as_json: bool) -> None:
    """What was checked of each checkpoint and what is wrong with it."""
    if as_json:
        print(json.dumps([proof.model_dump(mode="json") for proof in proofs], indent=1))
        return
    console = Console(highlight=False, soft_wrap=True)
    for proof in proofs:
        word = "[green]✓ sound[/]" if proof.ok else "[red]✗ not sound[/]"
        size = f"{proof.arrays} arrays, {proof.files} files, {proof.bytes / 1e6:.1f} MB, {proof.seconds:.2f} s"
        console.print(f"{word}  {plain(proof.path)}  ({', '.join(proof.checks)}; {size})")
        for problem in proof.problems:
            console.print(f"   {problem.check}: {plain(problem.path)}: {plain(problem.message)}")
