"""Lets one flow at a time own a run and its job. Other flows wait and reuse the result.

If the store is in a bucket, this includes flows on other machines. The store keeps the ids of the flow runs that own a
job, so that the job can be ended after its flow run has crashed.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

from tasks.launch.job import is_here
from tasks.launch.known_backends import read_handle
from tasks.records.plan import RunHandle, RunPlan
from tasks.records.run import RunRecord
from tasks.store.claims import TakenError
from tasks.store.directories import RunDirectory
from tasks.store.locks import hold
from tasks.store.names import check_name
from tasks.store.store import Store

LOCK = ".flow"  # file in the run's folder
FOLDER = "flows"  # in the store: a subfolder per flow run, with an empty file per run whose job it owns
OWNER = "owner"  # file in the run's folder: the ids of the flow runs that own its job
LOOK_EVERY_S = 1.0  # between checks of the lock in the run's folder
ASK_EVERY_S = 10.0  # between requests to a bucket and a Prefect server, which cost more than reading a file

# The state of a flow run on this flow's Prefect server. running: it has not ended; over: it has ended; unknown: the
# server does not have it.
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
    files of a finished run were changed: the files are moved away, and the run is repeated. In a bucket, takes over a
    run with its files from another machine's flow run, if the other flow run has ended or is one of `flow_runs`
    (rescheduled). Raises TakenError if this flow's server does not have the other flow run, unless `take_over` is set:
    the user states that the other machine is gone.
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


def find_heir(plan: RunPlan, flow_runs: tuple[str, ...], store: Store, *, is_rescheduled: Callable[[str], bool]) -> str:
    """Return a sentence about the flow that continues the job of an ending flow; "" if the job has to be ended."""
    if not is_owned(plan.run_name, flow_runs, store):
        return "this flow run was abandoned, and another flow run now owns its job"
    if not is_here(plan) and any(is_rescheduled(flow_run) for flow_run in flow_runs):  # a local job ends with its pod
        return "this flow run continues the job in another pod"
    return ""


def own(run_name: str, flow_runs: tuple[str, ...], store: Store) -> None:
    """Record these flow runs (a flow's and its parent's ids) as the owners of a run's job; replaces earlier owners."""
    check_name(run_name, "run name")
    for flow_run in flow_runs:
        store.files.write(f"{FOLDER}/{check_name(flow_run, 'flow run')}/{run_name}", b"")
    store.files.write(f"runs/{run_name}/{OWNER}", "\n".join(flow_runs).encode())


def is_owned(run_name: str, flow_runs: tuple[str, ...], store: Store) -> bool:
    """Return whether one of these flow runs still owns the run's job; True if there are no `flow_runs`."""
    return not flow_runs or not set(flow_runs).isdisjoint(_owners(run_name, store))


def handles_of(flow_run: str, store: Store) -> Iterator[RunHandle]:
    """Yield the handles of the jobs that a flow run owns; a job that a later flow attached to has another owner."""
    for entry in store.files.entries(prefix=f"{FOLDER}/{check_name(flow_run, 'flow run')}"):
        directory = store.run(entry.name.rpartition("/")[2])
        handle = read_handle(directory)  # None if the run's folder was deleted
        if handle is not None and flow_run in _owners(directory.run_name, store):
            yield handle


def _owners(run_name: str, store: Store) -> list[str]:
    return store.files.read(f"runs/{run_name}/{OWNER}").decode().split("\n")


def forget(flow_runs: Iterable[str], store: Store) -> None:
    """Delete the folders of these flow runs in FOLDER. Called once the jobs that they own have ended."""
    for flow_run in flow_runs:
        for entry in list(store.files.entries(prefix=f"{FOLDER}/{check_name(flow_run, 'flow run')}")):
            store.files.delete(entry.name)


def unforgotten(store: Store) -> list[str]:
    """Return the ids of the flow runs with files in FOLDER: they still run, or have ended without `forget`."""
    return sorted({entry.name.split("/")[1] for entry in store.files.entries(prefix=FOLDER)})
