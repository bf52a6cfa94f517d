"""Remembers in the store which flow run started or attached to which jobs, so that they can be ended for it."""

from collections.abc import Iterable, Iterator

from tasks.records import RunHandle
from tasks.store import Store, check_name

FOLDER = "flows"
OWNER = "owner"


def own(run_name: str, flow_runs: tuple[str, ...], store: Store) -> None:
    """Note that the job of a run belongs to these flow runs (a flow and the one it runs in) and to no earlier ones."""
    check_name(run_name, "run name")
    for flow_run in flow_runs:
        store.files.write(f"{FOLDER}/{check_name(flow_run, 'flow run')}/{run_name}", b"")
    store.files.write(f"runs/{run_name}/{OWNER}", "\n".join(flow_runs).encode())


def is_owned(run_name: str, flow_runs: tuple[str, ...], store: Store) -> bool:
    """Whether the job of a run still belongs to one of these flow runs, and to no later one."""
    return not flow_runs or not set(flow_runs).isdisjoint(_owners(run_name, store))


def handles_of(flow_run: str, store: Store) -> Iterator[RunHandle]:
    """Where the jobs of a flow run live, or lived; not those that a later flow has attached to."""
    for entry in store.files.entries(prefix=f"{FOLDER}/{check_name(flow_run, 'flow run')}"):
        directory = store.run(entry.name.rpartition("/")[2])
        if flow_run in _owners(directory.run_name, store) and (handle := directory.read_handle()) is not None:
            yield handle


def _owners(run_name: str, store: Store) -> list[str]:
    return store.files.read(f"runs/{run_name}/{OWNER}").decode().split("\n")


def forget(flow_runs: Iterable[str], store: Store) -> None:
    """The flow runs have ended in order: nothing has to be looked for."""
    for flow_run in flow_runs:
        for entry in list(store.files.entries(prefix=f"{FOLDER}/{check_name(flow_run, 'flow run')}")):
            store.files.delete(entry.name)


def unforgotten(store: Store) -> list[str]:
    """The flow runs that have jobs and have not ended in order: they still run, or they were lost."""
    return sorted({entry.name.split("/")[1] for entry in store.files.entries(prefix=FOLDER)})
