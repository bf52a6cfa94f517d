"""Reads the states of flow runs from Prefect's server, and ends flow runs with their processes and jobs.

A flow run is one execution of a Prefect flow. A job is the trainer's process, or the workload on a cluster, that
executes one training run or compile of the flow.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
import psutil
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.flows import Flow
from prefect.states import Cancelled, Running

from tasks.launch import job
from tasks.launch.backend import LaunchError
from tasks.launch.owners import Life, forget, handles_of, unforgotten
from tasks.records.plan import RunHandle
from tasks.services.outage import unless_away
from tasks.store.store import Store, open_store

HEARTBEAT = "prefect.flow-run.heartbeat"
AT_SIGTERM = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"  # variable in a flow's process
RESCHEDULE = "reschedule"  # value of AT_SIGTERM that Prefect's Kubernetes worker sets
# states of a flow run that may have a process
BEGUN = FlowRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING, StateType.CANCELLING])
MARK = "PREFECT__FLOW_RUN_ID"  # variable that Prefect sets in a flow's process: the flow run's id
MESSAGE = "ended by maxview down: start the same run again to continue"  # of the state Cancelled
PROCESS_PATIENCE_S = 45.0  # from SIGTERM to SIGKILL: a flow first ends its jobs, which save checkpoints

logger = logging.getLogger("prefect.flow_runs.maxview")


def life_of(flow_run: str) -> Life:
    """Return "over" if a flow run has ended, "running" if not, "unknown" if Prefect's server does not have it."""
    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(UUID(flow_run)).state
    except (ObjectNotFound, ValueError):  # a flow run of another server
        return "unknown"
    return "over" if state is not None and state.is_final() else "running"


def is_alive_after_all(flow_run: str) -> bool:
    """Return whether an ended flow run has sent a heartbeat since its end; if so, set its state to Running again.

    After a long outage of the server, the server's automation marks every running flow run as Crashed.
    """
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(flow_run)).state
        criteria = {
            "event": {"name": [HEARTBEAT]},
            "resource": {"id": [f"prefect.flow-run.{flow_run}"]},
            "occurred": {"since": state.timestamp.isoformat()} if state is not None else {},
        }
        if not client.request("POST", "/events/filter", json={"filter": criteria, "limit": 1}).json()["events"]:
            return False
        client.set_flow_run_state(UUID(flow_run), Running(message="heartbeat after a server outage"), force=True)
        return True


def is_rescheduled(flow_run: str) -> bool:
    """Return whether a flow run that ends in this pod was rescheduled, so that another pod continues the flow run.

    False outside of Prefect's Kubernetes worker, and while Prefect's server cannot be reached.
    """
    if os.environ.get(AT_SIGTERM) != RESCHEDULE:
        return False
    with unless_away(), get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(flow_run)).state
        return state is not None and state.is_scheduled()
    return False  # an outage hides the answer: end the jobs


def end_jobs(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """End every running job of a flow run that was cancelled or has crashed.

    Prefect calls this hook in the flow's own process, or in the worker's if the flow's process is gone.
    """
    for name in stop_jobs(str(flow_run.id), open_store(flow_run.parameters["out"])):
        logger.warning("%s: ended, with the flow run that started it", name)


def job_flow[**Given, Result](**options: Any) -> Callable[[Callable[Given, Result]], Flow[Given, Result]]:
    """Return the decorator `flow` of Prefect with these options, for a flow whose jobs end when it stops early."""
    return flow(on_cancellation=[end_jobs], on_crashed=[end_jobs], **options)


def stop_jobs(flow_run: str, store: Store) -> list[str]:
    """End the jobs that a flow run still owns, and delete the store's notes about its ownership.

    Returns the names of the jobs that were running.
    """
    ended = []
    for handle in handles_of(flow_run, store):
        if is_job_running(handle):
            ended.append(handle.job_name)
        job.stop(handle)
    forget([flow_run], store)
    return ended


def running_jobs(flow_run: str, store: Store) -> list[str]:
    """Return the names of the running jobs that a flow run owns."""
    return [handle.job_name for handle in handles_of(flow_run, store) if is_job_running(handle)]


def is_job_running(handle: RunHandle) -> bool:
    """Return whether a job has not ended; True also if its state cannot be read: ending it then reports the error."""
    try:
        return not job.has_ended(handle)
    except LaunchError:
        return True


@dataclass(frozen=True)
class Begun:
    """A flow run that had begun before its worker was ended; the flow run's store, and the jobs that ran then."""

    run: FlowRun
    store: Store
    jobs: tuple[str, ...]


def find_begun(out: str, say: Callable[[str], None]) -> list[Begun]:
    """Return the unfinished flow runs that a worker has begun. Must be called before the worker is ended.

    Leaves out flow runs that wait for a worker, that were started from the command line, or that are not `is_ours`.
    If the server cannot list them, reports that by `say` and returns []. out: address of the store of a flow
    run without a parameter `out`.
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
    """Return whether this user runs the flow on this machine; other users and machines may use the same database.

    Also True if no process was recorded, or if the recorded process of this machine has ended.
    """
    host, _, pid = (run.infrastructure_pid or "").rpartition(":")
    if not pid.isdigit():
        return True  # no process was recorded
    here = host in ("", socket.gethostname())  # some workers record no host
    try:
        return here and psutil.Process(int(pid)).uids().real == os.getuid()
    except psutil.NoSuchProcess:
        return here


def end_runs(begun: list[Begun], out: str, say: Callable[[str], None]) -> None:
    """End these flow runs with their jobs, and the jobs in the store `out` whose flow runs ended earlier.

    Reports each flow run, and errors of the server and of jobs, by `say`.
    """
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
    """Return the flow runs that have begun and not ended.

    parent: id of a flow run, to return only its subflow runs; None: all flow runs.
    """
    inside = None if parent is None else FlowRunFilterParentFlowRunId(any_=[parent])
    criteria = FlowRunFilter(state=FlowRunFilterState(type=BEGUN), parent_flow_run_id=inside)
    return client.read_flow_runs(flow_run_filter=criteria)


def end_run(client: SyncPrefectClient, begun: Begun, say: Callable[[str], None]) -> None:
    """End a flow run's processes and jobs, and set the flow run and its unfinished subflow runs to Cancelled.

    A flow run that has meanwhile ended in another state than Crashed keeps this state.
    """
    run = begun.run
    inside = read_begun(client, run.id)
    processes = list(processes_of(run.id))
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, remaining = psutil.wait_procs(processes, PROCESS_PATIENCE_S)
    for process in remaining:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(remaining, PROCESS_PATIENCE_S)
    _end_jobs(str(run.id), f"{run.name} (flow run {run.id})", begun.store, say, begun.jobs)
    for one in (*inside, run):
        state = client.read_flow_run(one.id).state
        # the worker may have set Crashed when it ended
        if state is None or not state.is_final() or state.type == StateType.CRASHED:
            client.set_flow_run_state(one.id, Cancelled(message=MESSAGE), force=True)


def _end_jobs(flow_run: str, name: str, store: Store, say: Callable[[str], None], running: Iterable[str] = ()) -> None:
    """End a flow run's jobs, and report their names or the error. running: names of ended jobs, reported too."""
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
