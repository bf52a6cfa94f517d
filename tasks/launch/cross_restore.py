"""Finds the run whose checkpoint another run restores, which proves that both arms save the same state."""

from collections.abc import Sequence
from pathlib import Path

from tasks.launch.job import proves_by_restoring
from tasks.records import RunPlan
from tasks.store import Store


def find_partner(plan: RunPlan, plans: Sequence[RunPlan], store: Store) -> Path | None:
    """Return the folder of the preceding run if it is the other arm's and both run our trainer, else None.

    The first run has no preceding one. If it died and is repeated, the second run had no checkpoint to restore and is
    not repeated; the first run then restores the second one's checkpoint instead.
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
    if record is not None and not record.is_finished:  # it will be repeated too, and restores then
        return None
    # A killed flow leaves no record: use the trainer's own file.
    program = record.program if record is not None else directory.read_program()
    crossing = (program or {}).get("cross_restore")
    could_not_try = isinstance(crossing, dict) and crossing.get("holds") is None
    return directory.path if could_not_try else None
