"""Ends the jobs that a cancelled or crashed flow run owns."""

import logging
from typing import Any

from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow

from tasks.launch import job
from tasks.launch.owners import forget, handles_of
from tasks.records import RunHandle
from tasks.store import Store, open_store

logger = logging.getLogger("prefect.flow_runs.maxview")


def end_jobs(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """End every running job of a flow run that was cancelled or has crashed.

    A hook that Prefect calls: in the flow's own process, or in the worker's if the flow's process is gone.
    """
    for name in stop_jobs(str(flow_run.id), open_store(flow_run.parameters["out"])):
        logger.warning("%s: ended, with the flow run that started it", name)


def stop_jobs(flow_run: str, store: Store) -> list[str]:
    """End the jobs that a flow run still owns; return the names of the jobs that were running."""
    ended = []
    for handle in handles_of(flow_run, store):
        if is_running(handle):
            ended.append(handle.job_name)
        job.stop(handle)
    forget([flow_run], store)
    return ended


def running_jobs(flow_run: str, store: Store) -> list[str]:
    """Return the names of the running jobs that a flow run owns."""
    return [handle.job_name for handle in handles_of(flow_run, store) if is_running(handle)]


def is_running(handle: RunHandle) -> bool:
    """Return whether a job runs; True if its state cannot be read, because ending it will then report the error."""
    try:
        return not job.has_ended(handle)
    except job.LaunchError:
        return True
