"""Ends what a flow run left behind when it was cancelled or its process was lost: no job outlives its flow unseen."""

import logging
from typing import Any

from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow

from tasks.launch import job
from tasks.launch.owners import forget, handles_of
from tasks.records import RunHandle
from tasks.store import Store, open_store

logger = logging.getLogger("prefect.flow_runs.maxview")


def on_cancellation(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Delete the jobs of a cancelled run. The worker calls this where the flow's own process could not."""
    end_jobs(flow_run)


def on_crashed(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """The same for a run that was ended from outside, or lost its process while a worker watched."""
    end_jobs(flow_run)


def end_jobs(flow_run: FlowRun) -> None:
    """End every job that a flow run has started and that still runs."""
    for name in stop_jobs(str(flow_run.id), open_store(flow_run.parameters["out"])):
        logger.warning("%s: over, with the flow run that started it", name)


def stop_jobs(flow_run: str, store: Store) -> list[str]:
    """End the jobs that a flow run has started and that no later one has attached to; the names of those that ran."""
    ended = []
    for handle in handles_of(flow_run, store):
        if is_running(handle):
            ended.append(handle.job_name)
        job.stop(handle)
    forget([flow_run], store)
    return ended


def running_jobs(flow_run: str, store: Store) -> list[str]:
    """The names of a flow run's jobs that have not ended."""
    return [handle.job_name for handle in handles_of(flow_run, store) if is_running(handle)]


def is_running(handle: RunHandle) -> bool:
    """Whether a job has not ended, as far as is known: where it is not, ending it will say what is wrong."""
    try:
        return job.status(handle).state != "ended"
    except job.LaunchError:
        return True
