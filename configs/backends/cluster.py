"""The settings that all backends on Kubernetes share."""

from typing import Annotated

from pydantic import Field

from configs.backends.queue import QueueSettings
from configs.backends.settings import PlainText

Zone = Annotated[str, Field(pattern=r"^[a-z]+-[a-z]+\d+-[a-z]$")]


class ClusterSettings(QueueSettings):
    """A cluster, and the settings of the jobs that run there."""

    image: PlainText
    cluster: PlainText  # its name in GKE; elsewhere any name, for pages
    project: PlainText | None = None  # of Google Cloud, with Cloud Logging; None: the cluster is not in GKE
    zone: Zone | None = None  # of Google Cloud; None: as for `project`
    num_slices: Annotated[int, Field(ge=1, le=256)] = 1
    namespace: PlainText = "default"
    context: PlainText | None = None  # in the kubeconfig; None: gke_PROJECT_ZONE-OR-REGION_CLUSTER, or this pod's own
    start_limit_s: Annotated[int, Field(ge=1)] = 4 * 3600
    restart_on_exit_codes: tuple[Annotated[int, Field(ge=1, le=255)], ...] = ()  # of the trainer, as after a preemption
    grace_s: Annotated[int, Field(ge=1, le=3600)] = 60  # seconds from SIGTERM to SIGKILL, to save a checkpoint
    shared_out: bool = False  # whether pods mount the output folder at the same path

    @property
    def gke_contexts(self) -> tuple[str, ...]:
        """The names that `gcloud container clusters get-credentials` gives to the cluster's context."""
        return tuple(f"gke_{self.project}_{place}_{self.cluster}" for place in (self.zone, self.region))

    @property
    def get_credentials(self) -> str:
        """The command that adds the cluster to the kubeconfig."""
        place = f"--location {self.region} --project {self.project}"
        return f"gcloud container clusters get-credentials {self.cluster} {place}"

    @property
    def region(self) -> str:
        """The region of the cluster's zone."""
        return (self.zone or "").rpartition("-")[0]
