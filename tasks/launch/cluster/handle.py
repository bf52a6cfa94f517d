"""The handle of a run on a cluster."""

from tasks.records.plan import RunHandle


class ClusterHandle(RunHandle):
    """A run on a cluster. `job_name` is the name of its JobSet."""

    family: str  # common prefix of the JobSet names of all attempts of the run
    namespace: str
    context: str | None  # name in the kubeconfig; None: use the credentials of the pod that the flow runs in
    created: float  # time of the launch, seconds since the epoch
    tries: int = 1  # number of this start: 1, and one more after each restart by `follow`
    extra_argv: tuple[str, ...] = ()  # the trainer's arguments after the plan's
    grace_s: int = 60  # seconds from SIGTERM to SIGKILL


HANDLE = ClusterHandle
