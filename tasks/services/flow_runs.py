"""Asks Prefect's server whether a flow run still goes."""

import os
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.states import Running

from tasks.launch.one_flow_per_run import Life
from tasks.services.outage import unless_away

HEARTBEAT = "prefect.flow-run.heartbeat"
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


def is_alive_after_all(flow_run: str) -> bool:
    """Whether a run that is over has shown since then that it lives; if so it is Running again.

    A server that was away for longer than a run may be silent gives up all that ran meanwhile as soon as it is back.
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
        client.set_flow_run_state(UUID(flow_run), Running(message="it lives: the server was away"), force=True)
        return True


def goes_on(flow_run: str) -> bool:
    """Whether a flow run that is ended here was put back into the queue: its pod is evicted, and another goes on."""
    if os.environ.get(AT_SIGTERM) != RESCHEDULE:
        return False
    with unless_away(), get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(flow_run)).state
        return state is not None and state.is_scheduled()
    return False  # who knows: it leaves nothing behind
