"""Stores which flow runs own which jobs, so that the jobs can be ended after their flow run has crashed."""

from collections.abc import Iterable, Iterator

from tasks.records import RunHandle
from tasks.store import Store, check_name

FOLDER = "flows"
OWNER = "owner"


def own(run_name: str, flow_runs: tuple[str, ...], store: Store) -> None:
    """Record these flow runs (a flow's and its parent's ids) as the owners of a run's job, instead of earlier ones."""
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
        if flow_run in _owners(directory.run_name, store) and (handle := directory.read_handle()) is not None:
            yield handle


def _owners(run_name: str, store: Store) -> list[str]:
    return store.files.read(f"runs/{run_name}/{OWNER}").decode().split("\n")


def forget(flow_runs: Iterable[str], store: Store) -> None:
    """Drop the ownership notes of flow runs that ended cleanly."""
    for flow_run in flow_runs:
        for entry in list(store.files.entries(prefix=f"{FOLDER}/{check_name(flow_run, 'flow run')}")):
            store.files.delete(entry.name)


def unforgotten(store: Store) -> list[str]:
    """Return the ids of the flow runs with ownership notes: they still run, or they crashed."""
    return sorted({entry.name.split("/")[1] for entry in store.files.entries(prefix=FOLDER)})
