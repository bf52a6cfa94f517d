"""Looks at a job in the cluster, with patience for an API server that does not answer for a while."""

import logging
import time
from collections.abc import Callable

from tasks.launch.errors import LaunchError
from tasks.launch.jobset import JobView, view_job
from tasks.launch.kube import KubeApi, NotAnswering
from tasks.launch.workload import attempt_of

LOOK_EVERY_S = 2.0
PATIENCE_S = 900.0  # how long the API server may not answer: a control plane's upgrade takes minutes
LAST_LINES_S = 30.0  # for the rest of the log of a pod that has ended

logger = logging.getLogger(__name__)


def patiently[T](call: Callable[[], T]) -> T:
    """Return what the call returns once the API server answers. Raises LaunchError if it stays away."""
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
    """What is told after an outage that was too long."""
    return LaunchError(f"{error}, for {PATIENCE_S:g} s now; the same command again goes on")


def attempts_of(api: KubeApi, family: str) -> list[tuple[int, str]]:
    """(number, name) of the workloads of a run."""
    names = [str(item["metadata"]["name"]) for item in api.jobsets()]
    return [(number, name) for name in names if (number := attempt_of(name, family)) is not None]


def look(api: KubeApi, name: str) -> JobView:
    """The job as the cluster shows it now. Raises NotAnswering, LaunchError."""
    jobset = api.jobset(name)
    pods = api.pods(name)
    return view_job(jobset, pods, api.workloads(name) if jobset is not None else [])


def wait_until_gone(api: KubeApi, names: list[str], grace_s: float) -> None:
    """Wait until the pods have ended too: a run that is started again must not meet them at the checkpoint.

    An outage does not count. Returns in any case some time after the grace: pods of a machine that is lost stay.
    """
    left = grace_s + LAST_LINES_S
    while left > 0:
        if patiently(lambda: not any(api.jobset(name) or api.pods(name) for name in names)):
            return
        began = time.monotonic()
        time.sleep(LOOK_EVERY_S / 4)
        left -= time.monotonic() - began
