"""Compares the lowered training steps that the runs of two arms (versions of a trainer) kept in their folders."""

import gzip
import hashlib
from collections.abc import Sequence
from pathlib import Path

from tasks.programs.compare_lowered import compare_transcripts
from tasks.programs.read_with_jax import read_with_jax
from tasks.records.explanation import ProgramExplanation
from tasks.records.observation import PROGRAM
from tasks.records.run import RunRecord
from tasks.store.store import Store


def have_programs(runs: Sequence[RunRecord], store: Store) -> bool:
    """Return whether the runs have two arms, all kept their programs, and the programs are not known to be equal."""
    hashes = {run.program.get("stablehlo_sha256") for run in runs}
    if len({run.arm for run in runs}) != 2 or (len(hashes) == 1 and None not in hashes):
        return False
    return all(path.is_file() for path in _paths(runs, store))


def compare_kept_programs(runs: Sequence[RunRecord], store: Store) -> ProgramExplanation | None:
    """Compare the first run's program with every other distinct program of each arm; return the largest difference.

    None if a program cannot be read (another JAX version may have written it), or if there is no other program.
    """
    programs: dict[str, tuple[RunRecord, Path]] = {}  # arm and digest of the program → first run, its file
    for run, path in zip(runs, _paths(runs, store), strict=True):
        digest = hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
        programs.setdefault(f"{run.arm} {digest}", (run, path))
    (first, path), *others = programs.values()
    try:
        transcripts = read_with_jax("stablehlo", [path, *(other for _, other in others)])
    except ValueError:
        return None
    roots = [_root_of(run) for run, _ in programs.values()]
    answers = [
        compare_transcripts(transcripts[0], transcript, (first.arm, run.arm), (roots[0], root))
        for transcript, (run, _), root in zip(transcripts[1:], others, roots[1:], strict=True)
    ]
    order = ("differs", "same computation in another order", "same text")
    return min(answers, key=lambda one: order.index(one.answer), default=None)


def _root_of(run: RunRecord) -> str:
    return (run.plan.source or run.plan.start_folder or "") if run.plan else ""


def _paths(runs: Sequence[RunRecord], store: Store) -> list[Path]:
    return [store.run_of_log(run.log).path / PROGRAM for run in runs]
