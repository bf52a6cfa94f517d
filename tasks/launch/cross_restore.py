"""Finds the run whose checkpoint another one restores and trains on, as a proof that both arms save the same."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.launch.job import proves_by_restoring
from tasks.records import RunPlan
from tasks.store import Store


def find_partner(plan: RunPlan, plans: Sequence[RunPlan], store: Store) -> Path | None:
    """The folder of the run before it, if that is one of the other arm and both are of our trainer.

    The first run has none before it. Where it died and is run again, the run behind it had nothing to restore at its
    time and is not repeated for that: then the first one makes up for it, and restores from that run.
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
    if record is not None and not record.is_finished:  # it is run again too, and restores then
        return None
    # a flow that was killed has not recorded what has ended: the trainer's own words do
    program = record.program if record is not None else directory.read_program()
    return directory.path if program is not None and lacks_proof(program) else None


def lacks_proof(program: Mapping[str, Any]) -> bool:
    """Whether a run that has trained to its end was to restore another one's checkpoint and could not try."""
    crossing = program.get("cross_restore")
    return isinstance(crossing, dict) and crossing.get("holds") is None
