"""The handle of a run on a cluster."""

from typing import Literal

from tasks.records.handle import RunHandle


class XpkHandle(RunHandle):
    """A run on a cluster: a workload created by xpk. `job_name` is the name of the workload and its JobSet."""

    backend: Literal["xpk"]
    family: str  # common prefix of the names of all attempts
    namespace: str
    context: str | None  # of the kubeconfig; None: the credentials of the pod that the flow runs in
    created: float  # seconds since the epoch
    tries: int = 1  # starts of the run; a preempted run is restarted
    extra_argv: tuple[str, ...] = ()  # the trainer's arguments beyond the plan's
    grace_s: int = 60  # from SIGTERM to SIGKILL


HANDLE = XpkHandle
