"""Prints the results of `maxview verify` on the terminal: the proofs of checkpoints, or the difference of two."""

import json
from collections.abc import Sequence

from rich.console import Console

from tasks.publish.content.array_tables import describe_alone, describe_counts, name_pair
from tasks.records.checkpoint_proof import CheckpointProof, highest
from tasks.records.compared_checkpoints import ArrayDifference, CheckpointDifference
from tasks.records.restored import Restored
from tasks.records.text import counted, escape_rich

MAX_ROWS = 20  # differing arrays shown


def show_proofs(proofs: Sequence[CheckpointProof], *, as_json: bool) -> None:
    """Print each checkpoint's state, level, checks, size and problems; of a retired one only the path. JSON has all."""
    if as_json:
        print(
            json.dumps([proof.model_dump(mode="json") | {"level": highest(proof.levels)} for proof in proofs], indent=1)
        )
        return
    console = Console(highlight=False, soft_wrap=True)
    for proof in proofs:
        level = highest(proof.levels)
        reached = f": {level}" if level else ""
        state = "[green]✓ sound[/]" if proof.is_sound else "– not checked" if proof.ok else "[red]✗ not sound[/]"
        word = f"{state}{reached}"
        if proof.is_only_counted:
            arrays = f"{counted(proof.arrays, 'array')} counted, " if proof.arrays else ""
            console.print(f"– another format ({proof.format}): {arrays}not proved  {escape_rich(proof.path)}")
            continue
        if proof.retired:
            console.print(f"= retired  {escape_rich(proof.path)}  (gone, and newer ones are there)")
            continue
        counts = f"{counted(proof.arrays, 'array')}, {counted(proof.files, 'file')}"
        size = f"{counts}, {proof.bytes / 1e6:.1f} MB, {proof.seconds:.2f} s"
        console.print(
            f"{word}  {escape_rich(proof.path)}  ({'; '.join(filter(None, (', '.join(proof.checks), size)))})"
        )
        for problem in proof.problems:
            place = "" if problem.path == "." else f"{escape_rich(problem.path)}: "
            console.print(f"   {problem.check}: {place}{escape_rich(problem.message)}")


def print_restored(found: Restored, *, as_json: bool) -> None:
    """Print what became of each saved array, or JSON with all of them."""
    if as_json:
        print(found.model_dump_json(indent=1))
        return
    console = Console(highlight=False, soft_wrap=True)
    word = {True: "[green]✓ restored as saved[/]", False: "[red]✗ not as saved[/]", None: "– not compared"}[found.holds]
    console.print(f"{word}  {escape_rich(found.source)}")
    console.print(escape_rich(found.summary))
    odd = [array for array in found.arrays if array.word != "equal"]
    for array in odd[:MAX_ROWS]:
        console.print(f"{'[red]✗[/]' if array.is_fault else '–'} {escape_rich(str(array))}")
    if len(odd) > MAX_ROWS:
        console.print(f"  … {len(odd) - MAX_ROWS} more")


def print_difference(found: CheckpointDifference, *, as_json: bool) -> None:
    """Print the difference as text, or as JSON with all facts about every array."""
    if as_json:
        print(found.model_dump_json(indent=1))
        return
    console = Console(highlight=False, soft_wrap=True)
    word = "– not compared" if found.is_blank else "[red]✗ different[/]"
    if found.equal:
        word = f"[red]✗ equal at step {found.step} alone[/]" if found.lacking else "[green]✓ equal[/]"
    console.print(
        f"{word}  {escape_rich(found.path)}  against  {escape_rich(found.other_path)}  ({found.seconds:.2f} s)"
    )
    console.print(describe_counts(found))
    for line in found.lacking:
        console.print(f"[red]✗[/] {escape_rich(line)}")
    differing = [array for array in found.arrays if array.names and array.other_names and not array.exact]
    if differing:
        _show_rows(console, differing)
    for line in describe_alone(found):
        console.print(escape_rich(line))
    _show_sharding(console, [array for array in found.compared if array.sharding != array.other_sharding])


def _show_rows(console: Console, differing: Sequence[ArrayDifference]) -> None:
    """Print one line for each of up to MAX_ROWS arrays. A table would fold their long names."""
    console.print(f"{'norm':>10} {'largest':>10} {'at':>16} {'differing':>24}  array", style="bold")
    for array in differing[:MAX_ROWS]:
        values = array.values
        if values is None:
            shapes = f"{list(array.shape)} → {list(array.other_shape)}"
            console.print(f"{'not compared: the shapes differ':>63}  {escape_rich(name_pair(array))}  {shapes}")
            continue
        dtypes = " → ".join(dict.fromkeys((array.dtype, array.other_dtype)))
        odd = f"  {values.not_finite:,} not finite" if values.not_finite else ""
        place = ", ".join(map(str, values.where))
        count = f"{values.differing:,} of {values.values:,}"
        name = f"{escape_rich(name_pair(array))}  {dtypes}{odd}"
        console.print(f"{values.norm:>10.4g} {values.largest:>10.4g} {place:>16} {count:>24}  {name}")
    if len(differing) > MAX_ROWS:
        console.print(f"and {len(differing) - MAX_ROWS} more; --json has all")


def _show_sharding(console: Console, moved: Sequence[ArrayDifference]) -> None:
    if moved:
        first = moved[0]
        layouts = f"{first.sharding or 'not written down'} here, {first.other_sharding or 'not written down'} there"
        console.print(
            f"{len(moved)} lay otherwise over the devices, first {escape_rich(first.names[0])}: {escape_rich(layouts)}"
        )
