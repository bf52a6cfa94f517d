"""Reads the states of flow runs from Prefect's server, and corrects a wrong Crashed state."""

import os
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.states import Running

from tasks.launch.one_flow_per_run import Life
from tasks.services.outage import unless_away

HEARTBEAT = "prefect.flow-run.heartbeat"
AT_SIGTERM = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"
RESCHEDULE = "reschedule"  # value of AT_SIGTERM that Prefect's Kubernetes worker sets


def life_of(flow_run: str) -> Life:
    """Return "over" if a flow run has ended, "running" if not, "unknown" if this server does not have it."""
    try:
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(UUID(flow_run)).state
    except (ObjectNotFound, ValueError):  # a flow run of another server
        return "unknown"
    return "over" if state is not None and state.is_final() else "running"


def is_alive_after_all(flow_run: str) -> bool:
    """Return whether a flow run has sent a heartbeat since it was marked as Crashed; if so, set it to Running again.

    After a long outage of the server, the server's automation marks every running flow run as Crashed.
    """
    with get_client(sync_client=True) as client:
        ended = client.read_flow_run(UUID(flow_run)).state
        wanted = {
            "event": {"name": [HEARTBEAT]},
            "resource": {"id": [f"prefect.flow-run.{flow_run}"]},
            "occurred": {"since": ended.timestamp.isoformat()} if ended is not None else {},
        }
        if not client.request("POST", "/events/filter", json={"filter": wanted, "limit": 1}).json()["events"]:
            return False
        client.set_flow_run_state(UUID(flow_run), Running(message="heartbeat after a server outage"), force=True)
        return True


def goes_on(flow_run: str) -> bool:
    """Return whether a flow run that ends in this pod was rescheduled, so that another pod continues it."""
    if os.environ.get(AT_SIGTERM) != RESCHEDULE:
        return False
    with unless_away(), get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(flow_run)).state
        return state is not None and state.is_scheduled()
    return False  # unknown during an outage: False, so that the jobs are ended
