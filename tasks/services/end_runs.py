"""Ends a worker's flow runs, with their processes and jobs, between the end of the worker and of the server."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

import httpx
import psutil
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Cancelled

from tasks.launch.errors import LaunchError
from tasks.launch.owners import unforgotten
from tasks.services.cleanup import running_jobs, stop_jobs
from tasks.services.flow_runs import life_of
from tasks.store import Store, open_store

BEGUN = FlowRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING, StateType.CANCELLING])
MARK = "PREFECT__FLOW_RUN_ID"  # variable that Prefect sets in a flow's process: the flow run's id
MESSAGE = "ended by maxview down: start the same run again to continue"
PROCESS_PATIENCE_S = 45.0  # from SIGTERM to SIGKILL: a flow first ends its job, which saves a checkpoint


@dataclass(frozen=True)
class Begun:
    """A flow run of a deployment that had begun before its worker was ended, and its jobs that ran then."""

    run: FlowRun
    store: Store
    jobs: tuple[str, ...]


def find_begun(out: str, say: Callable[[str], None]) -> list[Begun]:
    """Return the unfinished flow runs that a worker has begun. To be called before the worker is ended.

    Leaves out runs that wait for a worker, and runs from the command line. `out`: address of the default store.
    """
    try:
        with get_client(sync_client=True) as client:
            runs = [run for run in read_begun(client) if run.deployment_id is not None and is_ours(run)]
    except httpx.HTTPError as error:
        say(f"runs: the server cannot list them ({error}); end their jobs with maxview up")
        return []
    stores = [open_store(run.parameters.get("out", out)) for run in runs]
    return [
        Begun(run=run, store=store, jobs=tuple(running_jobs(str(run.id), store)))
        for run, store in zip(runs, stores, strict=True)
    ]


def is_ours(run: FlowRun) -> bool:
    """Return whether this user runs the flow on this machine; other users and machines may use the same database."""
    host, _, pid = (run.infrastructure_pid or "").rpartition(":")
    if not pid.isdigit():
        return True  # no process was recorded
    here = host in ("", socket.gethostname())  # some workers record no host
    try:
        return here and psutil.Process(int(pid)).uids().real == os.getuid()
    except psutil.NoSuchProcess:
        return here


def end_runs(begun: list[Begun], out: str, say: Callable[[str], None]) -> None:
    """End these flow runs with their jobs, and the remaining jobs of flow runs that crashed earlier."""
    try:
        with get_client(sync_client=True) as client:
            for one in begun:
                end_run(client, one, say)
        store = open_store(out)
        for lost in [flow_run for flow_run in unforgotten(store) if life_of(flow_run) == "over"]:
            _end_jobs(lost, f"flow run {lost}", store, say)
    except httpx.HTTPError as error:
        say(f"runs: the server does not answer ({error}); end their jobs with maxview up")


def read_begun(client: SyncPrefectClient, parent: UUID | None = None) -> list[FlowRun]:
    """Return the flow runs that have begun and not ended. parent: only subflow runs of this flow run; None: all."""
    inside = None if parent is None else FlowRunFilterParentFlowRunId(any_=[parent])
    wanted = FlowRunFilter(state=FlowRunFilterState(type=BEGUN), parent_flow_run_id=inside)
    return client.read_flow_runs(flow_run_filter=wanted)


def end_run(client: SyncPrefectClient, begun: Begun, say: Callable[[str], None]) -> None:
    """End a flow run's process and jobs, and set the states of the flow run and its subflow runs to Cancelled."""
    run = begun.run
    inside = read_begun(client, run.id)
    processes = list(processes_of(run.id))
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, deaf = psutil.wait_procs(processes, PROCESS_PATIENCE_S)
    for process in deaf:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(deaf, PROCESS_PATIENCE_S)
    _end_jobs(str(run.id), f"{run.name} (flow run {run.id})", begun.store, say, begun.jobs)
    for one in (*inside, run):
        state = client.read_flow_run(one.id).state
        if (
            state is None or not state.is_final() or state.type == StateType.CRASHED
        ):  # Crashed: set by the ending worker
            client.set_flow_run_state(one.id, Cancelled(message=MESSAGE), force=True)


def _end_jobs(flow_run: str, name: str, store: Store, say: Callable[[str], None], running: Iterable[str] = ()) -> None:
    """End a flow run's jobs, and report their names. running: names of jobs that were running earlier."""
    try:
        ended = list(dict.fromkeys([*running, *stop_jobs(flow_run, store)]))
    except LaunchError as error:
        say(f"{name}: {error}")
        return
    say(f"{name}: ended{f', and its job {", ".join(ended)}' if ended else ''}; start the same run again to continue")


def processes_of(flow_run: UUID) -> Iterator[psutil.Process]:
    """Yield a flow run's live processes on this machine, found by MARK; its jobs do not have that variable."""
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == str(flow_run):
                yield process
