"""Finds the operations in which the culprit's lowered program differs from the last known program before it.

The culprit is the commit that changed the bisected metric.
"""

from collections.abc import Mapping, Sequence

from questions.bisect.ledger import FOLDER, ledger_key
from tasks.programs.compare_lowered import compare_program_files
from tasks.records.bisection import BisectedPoint
from tasks.records.compiled import LOWERED
from tasks.records.explanation import ProgramExplanation
from tasks.records.observation import PROGRAM
from tasks.records.plan import RunPlan
from tasks.records.run import RunRecord
from tasks.store.store import Store


def compare_culprit_program(
    points: Sequence[BisectedPoint], culprit: int, like: RunPlan, runs: Mapping[int, Sequence[RunRecord]], store: Store
) -> ProgramExplanation | None:
    """Compare the culprit's program with the last program of a point before it; return the operations that differ.

    Compares programs of the compile ledger, else programs that runs kept, because custom commands have none in the
    ledger. like: the good end's plan. Returns None if the programs do not differ, if one is missing or from another
    JAX version, or if package versions are bisected.
    """
    here = points[culprit]
    if here.version:  # different JAX versions lower one step differently
        return None
    in_ledger = {
        number: store.path / FOLDER / "programs" / ledger_key(point.source, like) / LOWERED
        for number, point in enumerate(points)
        if point.source and point.ledger.program
    }
    of_runs = {number: store.run_of_log(done[0].log).path / PROGRAM for number, done in runs.items() if done}
    for kept in (in_ledger, of_runs):
        before = max((number for number in kept if number < culprit), default=None)
        if culprit in kept and before is not None:
            if not (kept[before].is_file() and kept[culprit].is_file()):  # left on another machine
                return None
            try:
                found = compare_program_files(kept[before], kept[culprit], (points[before].name, here.name))
            except ValueError:  # another JAX version wrote the text
                return None
            return found if found.answer == "differs" else None
    return None
