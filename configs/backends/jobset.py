"""The settings of the backend `jobset`."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from configs.backends.cluster import ClusterSettings
from configs.backends.settings import PlainText
from configs.frozen import Frozen
from configs.topologies import find_topology

# labels of nodes: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
LabelKey = Annotated[str, Field(pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Count = Annotated[int, Field(ge=1, strict=True)]


class Volume(Frozen):
    """A volume that every pod mounts at `path`, and its source: gs://BUCKET, a claim's name, or /FOLDER of the node."""

    path: Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/-]+$")]
    source: Annotated[str, Field(pattern=r"^(gs://|/)?[a-z0-9][A-Za-z0-9._/-]*$")]
    read_only: bool = True


class JobSet(ClusterSettings):
    """A cluster with JobSet, and the devices and settings of the jobs that run there.

    Devices: TPU slices of a `topology`, or `hosts` with `gpus` each, or without both, hosts with processors only.
    """

    backend: Literal["jobset"] = "jobset"
    topology: str | None = None  # of each slice; None: the target's
    gpus: Count | None = None  # per host; None: no GPUs
    hosts: Count = 1  # per slice, if it has no topology
    node_selector: dict[LabelKey, PlainText] = {}  # further labels of the nodes, such as a kind of GPU
    queue: PlainText | None = "multislice-queue"  # a LocalQueue of Kueue; None: without Kueue
    priority: PlainText | None = None  # name of a PriorityClass; None: the cluster's default
    service_account: PlainText | None = None  # of the pods, with their access to buckets; None: the namespace's default
    volumes: tuple[Volume, ...] = ()
    ttl_s: Count = 12 * 3600  # seconds that an ended job is kept, for `kubectl` and for flows that died

    @model_validator(mode="after")
    def _check_devices(self) -> Self:
        if self.topology is not None:
            find_topology(self.topology)
            if self.gpus is not None or self.hosts > 1:
                raise ValueError(f"topology {self.topology} has its own hosts: leave gpus and hosts out")
        return self

    @property
    def slice_hosts(self) -> int:
        """The number of hosts of a slice, each with one pod."""
        return find_topology(self.topology).hosts if self.topology else self.hosts

    @property
    def limits(self) -> dict[str, int]:
        """The resource of a host's devices, and their number; {} without devices."""
        if self.topology:
            return {"google.com/tpu": find_topology(self.topology).host_chips}
        return {"nvidia.com/gpu": self.gpus} if self.gpus else {}

    @property
    def selector(self) -> dict[str, str]:
        """The labels of the nodes."""
        return (find_topology(self.topology).gke_labels if self.topology else {}) | self.node_selector

    @property
    def facts(self) -> dict[str, Any]:
        """The settings that can change a run's outcome; see ImageSettings."""
        return self.model_dump(include={"image", "topology", "gpus", "hosts", "node_selector", "num_slices"})

    @property
    def alone(self) -> bool:
        """Whether a run has a single process of the trainer; see ImageSettings."""
        return self.slice_hosts * self.num_slices == 1

    @property
    def devices(self) -> int | None:
        """The number of JAX devices; None if it is not known."""
        if self.topology is not None:
            return self.num_slices * find_topology(self.topology).devices
        return None if self.gpus is None else self.num_slices * self.hosts * self.gpus


SETTINGS = JobSet
