"""Reads a job's state from the cluster, and retries while the cluster's API server is unavailable."""

import logging
import time
from collections.abc import Callable

from tasks.launch.backend import LaunchError
from tasks.launch.cluster.job_view import JobView, view_job
from tasks.launch.cluster.kube import KubeApi, NotAnswering

LOOK_EVERY_S = 2.0  # between two requests for a job's state
PATIENCE_S = 900.0  # longest outage that is waited for; an upgrade of the cluster's control plane takes minutes
# longest time to read the rest of an ended pod's log, and to wait for pods after their grace period
LAST_LINES_S = 30.0

logger = logging.getLogger(__name__)


def retry_outages[T](call: Callable[[], T]) -> T:
    """Return the result of `call`; retry it while it raises NotAnswering. Raises LaunchError after PATIENCE_S."""
    began = None
    while True:
        try:
            return call()
        except NotAnswering as error:
            if began is None:
                began = time.monotonic()
                logger.warning("%s; trying again for %g minutes", error, PATIENCE_S / 60)
            if time.monotonic() - began > PATIENCE_S:
                raise given_up(error) from error
            time.sleep(max(LOOK_EVERY_S, error.wait_s))


def given_up(error: NotAnswering) -> LaunchError:
    """Return the error to raise when an outage, with the last error `error`, has lasted too long."""
    return LaunchError(f"{error}, for {PATIENCE_S:g} s now; repeat the same command to continue")


def read_job(api: KubeApi, name: str) -> JobView:
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
        time.sleep(LOOK_EVERY_S / 4)
        left -= time.monotonic() - began
