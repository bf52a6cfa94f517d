"""Reads a job's state from the cluster."""

import time

from tasks.launch import patience
from tasks.launch.cluster.job_view import JobView, view_job
from tasks.launch.cluster.kube import KubeApi
from tasks.launch.patience import retry_outages

# longest time to read the rest of an ended pod's log, and to wait for pods after their grace period
LAST_LINES_S = 30.0


def fetch_job(api: KubeApi, name: str) -> JobView:
    """Return the current state of the job `name`. Raises NotAnswering, LaunchError."""
    jobset = api.jobset(name)
    pods = api.pods(name)
    return view_job(jobset, pods, api.workloads(name) if jobset is not None else [])


def wait_until_gone(api: KubeApi, names: list[str], grace_s: float) -> None:
    """Wait until the workloads' pods have ended, so that a restarted run has its checkpoint folder for itself.

    Waits at most `grace_s` + LAST_LINES_S, because pods of a lost machine never disappear. Outages do not count.
    """
    left = grace_s + LAST_LINES_S
    while left > 0:
        if retry_outages(lambda: not any(api.jobset(name) or api.pods(name) for name in names)):
            return
        began = time.monotonic()
        time.sleep(patience.LOOK_EVERY_S / 4)
        left -= time.monotonic() - began
