"""Ends the flow runs that a worker has left running, with their processes and jobs, before their server goes too."""

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
MARK = "PREFECT__FLOW_RUN_ID"  # what Prefect calls a flow run in the environment of its process
MESSAGE = "maxview down has ended it: the same run again goes on from what is there"
PROCESS_PATIENCE_S = 45.0  # a flow that is asked to end ends its job first, which saves a checkpoint


@dataclass(frozen=True)
class Begun:
    """A run of a deployment that had begun when its worker still ran, and the jobs that it had running."""

    run: FlowRun
    store: Store
    jobs: tuple[str, ...]


def find_begun(out: str, say: Callable[[str], None]) -> list[Begun]:
    """The runs that a worker has begun, before it is ended: it may end them itself. `out` is the usual store.

    Runs that wait for a worker go on waiting, and those of a command line are ended by whoever started them.
    """
    try:
        with get_client(sync_client=True) as client:
            runs = [run for run in read_begun(client) if run.deployment_id is not None and is_ours(run)]
    except httpx.HTTPError as error:
        say(f"runs: the server does not say which ones still go ({error}); maxview up again ends what they left")
        return []
    stores = [open_store(run.parameters.get("out", out)) for run in runs]
    return [
        Begun(run=run, store=store, jobs=tuple(running_jobs(str(run.id), store)))
        for run, store in zip(runs, stores, strict=True)
    ]


def is_ours(run: FlowRun) -> bool:
    """Whether a process of this user on this machine has it: a database may be shared with other machines and users."""
    host, _, pid = (run.infrastructure_pid or "").rpartition(":")
    if not pid.isdigit():
        return True  # no worker has noted a process
    try:
        return host == socket.gethostname() and psutil.Process(int(pid)).uids().real == os.getuid()
    except psutil.NoSuchProcess:
        return host == socket.gethostname()


def end_runs(begun: list[Begun], out: str, say: Callable[[str], None]) -> None:
    """End what is left of these runs, and the jobs that were lost before."""
    try:
        with get_client(sync_client=True) as client:
            for one in begun:
                end_run(client, one, say)
        store = open_store(out)
        for lost in [flow_run for flow_run in unforgotten(store) if life_of(flow_run) == "over"]:
            _end_jobs(lost, f"flow run {lost}", store, say)
    except httpx.HTTPError as error:
        say(f"runs: the server does not answer ({error}); maxview up again ends what they left")


def read_begun(client: SyncPrefectClient, parent: UUID | None = None) -> list[FlowRun]:
    """The flow runs that have begun and not ended; of one only those that run inside it."""
    inside = None if parent is None else FlowRunFilterParentFlowRunId(any_=[parent])
    wanted = FlowRunFilter(state=FlowRunFilterState(type=BEGUN), parent_flow_run_id=inside)
    return client.read_flow_runs(flow_run_filter=wanted)


def end_run(client: SyncPrefectClient, begun: Begun, say: Callable[[str], None]) -> None:
    """End a flow run's process and jobs, and say so in its state and in those of the runs inside it."""
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
        if state is None or not state.is_final() or state.type == StateType.CRASHED:  # by its worker, as it was ended
            client.set_flow_run_state(one.id, Cancelled(message=MESSAGE), force=True)


def _end_jobs(flow_run: str, name: str, store: Store, say: Callable[[str], None], running: Iterable[str] = ()) -> None:
    """End what a flow run has left, and report it with what was `running` before."""
    try:
        ended = list(dict.fromkeys([*running, *stop_jobs(flow_run, store)]))
    except LaunchError as error:
        say(f"{name}: {error}")
        return
    say(f"{name}: ended{f', and its job {", ".join(ended)}' if ended else ''}; the same run again goes on from there")


def processes_of(flow_run: UUID) -> Iterator[psutil.Process]:
    """The live processes of a flow run on this machine; its jobs are none of them, their environment is their own."""
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == str(flow_run):
                yield process
