"""Looks at a job in the cluster, with patience for an API server that does not answer for a while."""

import time

from tasks.launch.jobset import JobView, view_job
from tasks.launch.kube import KubeApi, NotAnswering
from tasks.launch.workload import attempt_of

LOOK_EVERY_S = 2.0
PATIENCE_S = 900.0  # how long the API server may not answer: a control plane's upgrade takes minutes
LAST_LINES_S = 30.0  # for the rest of the log of a pod that has ended


def attempts_of(api: KubeApi, family: str) -> list[tuple[int, str]]:
    """(number, name) of the workloads of a run."""
    names = [str(item["metadata"]["name"]) for item in api.jobsets()]
    return [(number, name) for name in names if (number := attempt_of(name, family)) is not None]


def look(api: KubeApi, name: str) -> JobView:
    jobset = api.jobset(name)
    pods = api.pods(name)
    return view_job(jobset, pods, api.workloads(name) if jobset is not None else [])


def look_patiently(api: KubeApi, name: str) -> JobView:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return look(api, name)
        except NotAnswering:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_EVERY_S)


def wait_until_gone(api: KubeApi, names: list[str], grace_s: float) -> None:
    """Wait until the pods have ended too: whoever starts the run again must not meet them at the checkpoint."""
    deadline = time.monotonic() + grace_s + LAST_LINES_S
    while time.monotonic() < deadline:
        try:
            if not any(api.jobset(name) or api.pods(name) for name in names):
                return
        except NotAnswering:
            pass  # asked again below
        time.sleep(LOOK_EVERY_S / 4)
