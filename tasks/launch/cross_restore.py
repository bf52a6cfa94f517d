"""Finds the other arm's run whose checkpoint a run restores, as a proof that both arms save the same state."""

from collections.abc import Sequence
from pathlib import Path

from tasks.launch.job import proves_by_restoring
from tasks.records import RunPlan
from tasks.store import Store


def find_partner(plan: RunPlan, plans: Sequence[RunPlan], store: Store) -> Path | None:
    """Return the folder of the run in `plans` whose checkpoint the run of `plan` restores; None if there is none.

    It is the preceding run if that is the other arm's and both use maxview's trainer. If the first run died, the second
    run had no checkpoint to restore; if only the first is repeated, it restores the second run's checkpoint instead.
    """
    place = plans.index(plan)
    if place > 0:
        before = plans[place - 1]
        return store.run(before.run_name).path if proves_by_restoring(plan, before) else None
    behind = plans[1] if len(plans) > 1 and proves_by_restoring(plans[1], plan) else None
    if behind is None:
        return None
    directory = store.run(behind.run_name)
    record = directory.read_record()
    if record is not None and not record.is_finished:  # will be repeated after this run, and then restores
        return None
    # If the flow was killed, there is no record: read the file that the trainer wrote.
    program = record.program if record is not None else directory.read_program()
    crossing = (program or {}).get("cross_restore")
    could_not_try = isinstance(crossing, dict) and crossing.get("holds") is None
    return directory.path if could_not_try else None
