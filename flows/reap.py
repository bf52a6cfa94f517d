"""The flow `reap`, which a server's automation starts: ends the jobs of crashed flow runs."""

import time

from prefect import flow, get_run_logger

from tasks.launch.owners import unforgotten
from tasks.resolve.options import DEFAULT_OUT, Out
from tasks.services.flow_runs import is_alive_after_all, life_of, stop_jobs
from tasks.store.store import open_store

HEARTBEATS_S = 60.0  # time in which a flow run that is alive sends two heartbeats


@flow(name="reap", description="End the jobs of flow runs that were lost together with their worker.")
def reap(out: Out = DEFAULT_OUT) -> list[str]:
    """End the jobs that ended flow runs have left behind; return the names of the jobs that were still running."""
    store = open_store(out)
    lost = [flow_run for flow_run in unforgotten(store) if life_of(flow_run) == "over"]
    if lost:
        time.sleep(HEARTBEATS_S)
    ended = []
    for flow_run in lost:
        if not is_alive_after_all(flow_run):
            for name in stop_jobs(flow_run, store):
                get_run_logger().warning("%s: ended, with the flow run %s that started it", name, flow_run)
                ended.append(name)
    return ended
