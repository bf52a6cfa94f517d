"""The handle of a run on a cluster."""

from pydantic import TypeAdapter

from tasks.launch.queued_handle import QueuedHandle
from tasks.records.plan import RunHandle


class ClusterHandle(QueuedHandle):
    """A run on a cluster. `job_name` is the name of its JobSet."""

    family: str  # common prefix of the JobSet names of all attempts of the run
    namespace: str
    context: str | None  # name in the kubeconfig; None: use the credentials of the pod that the flow runs in
    grace_s: int = 60  # seconds from SIGTERM to SIGKILL

    @property
    def command_to_end(self) -> str:
        return f"kubectl delete jobset -n {self.namespace} {self.job_name}"


HANDLE = ClusterHandle
STORED: TypeAdapter[RunHandle] = TypeAdapter(ClusterHandle)
