"""Ends what a flow run left behind when it was cancelled or its process was lost: no job outlives its flow unseen."""

import logging
from typing import Any

from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow

from tasks.launch import job
from tasks.owners import forget, handles_of
from tasks.store import open_store

logger = logging.getLogger("prefect.flow_runs.maxview")


def on_cancellation(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Delete the jobs of a cancelled run. The worker calls this where the flow's own process could not."""
    end_jobs(flow_run)


def on_crashed(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """The same for a run that was ended from outside, or lost its process while a worker watched."""
    end_jobs(flow_run)


def end_jobs(flow_run: FlowRun) -> None:
    """End every job that a flow run has started and that still runs."""
    store = open_store(flow_run.parameters["out"])
    for handle in handles_of(str(flow_run.id), store):
        job.stop(handle)
        logger.warning("%s: over, with the flow run that started it", handle.job_name)
    forget([str(flow_run.id)], store)
