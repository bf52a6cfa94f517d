"""Lets one flow at a time work on a run: others wait, here or on another machine, and find what it has made."""

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

LOCK = ".flow"
LOOK_EVERY_S = 1.0
ASK_EVERY_S = 10.0  # of a bucket and a server, which are asked for more than a look at a file

# whether a flow run that a claim names still goes, as far as the Prefect server of this flow knows
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
    """Hold a run exclusively. Yields its record if it has already finished, else None.

    `wait` is called again and again with the reason, and may raise; `tell` once, where a finished run was changed by
    another hand: its files are put aside, and it begins anew. In a bucket, the run of a machine whose flow run
    is over is taken over, with all that it has left there; so is that of an earlier process of one of `flow_runs`,
    which was put back into the queue.
    Raises StoreError if somebody works on it of whom this flow's server knows nothing, unless somebody who knows more
    says `take_over`: that machine is gone.
    """

    def is_over(others: tuple[str, ...]) -> bool:
        if not set(others).isdisjoint(flow_runs):
            return True
        lives = {life_of(flow_run) for flow_run in others}
        return "over" in lives or (take_over and lives <= {"unknown"})

    def pause(why: str, seconds: float) -> None:
        wait(f"{plan.run_name}: {why}; waiting for it")
        time.sleep(seconds)

    with hold(directory.create().path / LOCK, lambda who: pause(f"{who} works on it", LOOK_EVERY_S)):
        if changed := directory.find_changed():
            aside = directory.put_aside()
            why = f"{', '.join(changed)} changed after the run had ended"
            tell(f"{plan.run_name}: {why}; it is run again ({aside} keeps what was there)")
        while (finished := find_finished(directory)) is None:
            try:
                directory.claim(flow_runs, is_over=is_over, checkpoints=is_here(plan))
                break
            except TakenError as taken:
                if not any(life_of(flow_run) == "running" for flow_run in taken.claim.flow_runs):
                    raise
                pause(f"{taken.claim.host} works on it", ASK_EVERY_S)
        yield finished


def find_finished(directory: RunDirectory) -> RunRecord | None:
    """The record of a run that has finished and that nothing has changed since; None if it is to be run."""
    if directory.find_changed():
        return None
    record = directory.read_record()
    return record if record is not None and record.is_finished else None


def find_heir(plan: RunPlan, flow_runs: tuple[str, ...], store: Store, *, goes_on: Callable[[str], bool]) -> str:
    """Who goes on with the job of a flow that ends, as a sentence; empty: nobody does, and the job has to end."""
    if not is_owned(plan.run_name, flow_runs, store):
        return "this flow run was given up, and another has its job"
    if not is_here(plan) and any(goes_on(flow_run) for flow_run in flow_runs):  # others end with the pod: they may save
        return "this flow run goes on with it in another pod"
    return ""
