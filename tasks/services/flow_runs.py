"""Asks Prefect's server whether a flow run still goes."""

import os
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound

from tasks.launch.one_flow_per_run import Life
from tasks.services.outage import unless_away

AT_SIGTERM = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"
RESCHEDULE = "reschedule"  # as Prefect's Kubernetes worker asks


def life_of(flow_run: str) -> Life:
    """Whether a flow run still goes, as far as this server knows."""
    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(UUID(flow_run)).state
    except (ObjectNotFound, ValueError):  # another server's
        return "unknown"
    return "over" if state is not None and state.is_final() else "running"


def goes_on(flow_run: str) -> bool:
    """Whether a flow run that is ended here was put back into the queue: its pod is evicted, and another goes on."""
    if os.environ.get(AT_SIGTERM) != RESCHEDULE:
        return False
    with unless_away(), get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(flow_run)).state
        return state is not None and state.is_scheduled()
    return False  # who knows: it leaves nothing behind
