"""Lets only one flow at a time work on a run. Other flows, also on other machines, wait and reuse the result."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from tasks.launch.job import is_here
from tasks.launch.owners import is_owned
from tasks.records import RunPlan, RunRecord
from tasks.store import RunDirectory, Store
from tasks.store.claims import TakenError
from tasks.store.locks import hold

LOCK = ".flow"  # file in the run's folder
LOOK_EVERY_S = 1.0  # between checks of the lock
ASK_EVERY_S = 10.0  # between requests to a bucket and a Prefect server, which cost more than reading a file

# The state of a flow run on this flow's Prefect server; unknown: the server does not have it.
type Life = Literal["running", "over", "unknown"]


@contextmanager
def turn_of(
    plan: RunPlan,
    directory: RunDirectory,
    flow_runs: tuple[str, ...],
    *,
    life_of: Callable[[str], Life],
    wait: Callable[[str], None],
    tell: Callable[[str], None] = lambda _: None,
    take_over: bool = False,
) -> Iterator[RunRecord | None]:
    """Lock a run while the block runs. Yields the run's record if it has already finished, else None.

    While another flow has the run, calls `wait` repeatedly with the reason; `wait` may raise. Calls `tell` once if the
    files of a finished run were changed: they are moved away, and the run is repeated. In a bucket, takes over another
    machine's run, with its files, if that flow run is over or is one of `flow_runs` (rescheduled). Raises StoreError if
    the other flow run is unknown to this flow's server, unless `take_over`: the user states that its machine is gone.
    """

    def is_over(others: tuple[str, ...]) -> bool:
        if not set(others).isdisjoint(flow_runs):
            return True
        lives = {life_of(flow_run) for flow_run in others}
        return "over" in lives or (take_over and lives <= {"unknown"})

    def pause(who: str, seconds: float) -> None:
        wait(f"{plan.run_name}: in use by {who}; waiting")
        time.sleep(seconds)

    with hold(directory.create().path / LOCK, lambda who: pause(who, LOOK_EVERY_S)):
        if changed := directory.find_changed():
            aside = directory.put_aside()
            why = f"{', '.join(changed)} changed after the run had ended"
            tell(f"{plan.run_name}: {why}; it is run again ({aside} keeps the old files)")
        while (finished := find_finished(directory)) is None:
            try:
                directory.claim(flow_runs, is_over=is_over, checkpoints=is_here(plan))
                directory.remove_seal()
                break
            except TakenError as taken:
                if not any(life_of(flow_run) == "running" for flow_run in taken.claim.flow_runs):
                    raise
                pause(taken.claim.host, ASK_EVERY_S)
        yield finished


def find_finished(directory: RunDirectory) -> RunRecord | None:
    """Return the record of a finished run; None if the run has not finished, or if its files have changed since."""
    if directory.find_changed():
        return None
    record = directory.read_record()
    return record if record is not None and record.is_finished else None


def find_heir(plan: RunPlan, flow_runs: tuple[str, ...], store: Store, *, goes_on: Callable[[str], bool]) -> str:
    """Return a sentence about the flow that continues the job of an ending flow; "" if the job has to be ended."""
    if not is_owned(plan.run_name, flow_runs, store):
        return "this flow run was abandoned, and another flow run now owns its job"
    if not is_here(plan) and any(goes_on(flow_run) for flow_run in flow_runs):  # a local job ends with its pod
        return "this flow run continues the job in another pod"
    return ""
