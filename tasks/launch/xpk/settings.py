"""The settings of the backend `xpk`."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from configs.backends import Flag, ImageSettings, Lines, PlainText


class Xpk(ImageSettings):
    """A cluster created by xpk, and the settings of the workloads that run there."""

    hires_chips: ClassVar[bool] = True

    backend: Literal["xpk"] = "xpk"
    cluster: PlainText
    project: PlainText
    zone: Annotated[str, Field(pattern=r"^[a-z]+-[a-z]+\d+-[a-z]$")]
    tpu_type: PlainText
    num_slices: Annotated[int, Field(ge=1, le=256)] = 1
    priority: Literal["very-low", "low", "medium", "high", "very-high"] = "medium"
    namespace: PlainText = "default"
    context: PlainText | None = None  # in the kubeconfig; None: gke_PROJECT_ZONE-OR-REGION_CLUSTER, or this pod's own
    start_limit_s: Annotated[int, Field(ge=1)] = 4 * 3600  # seconds that a run may wait for machines
    attempts: Annotated[int, Field(ge=1, le=100)] = 3  # limit of starts of a run that loses its machines
    grace_s: Annotated[int, Field(ge=1, le=3600)] = 60  # seconds from SIGTERM to SIGKILL, to save a checkpoint
    shared_out: bool = False  # whether pods mount the output folder at the same path
    argv: Lines = ("xpk",)  # xpk's command, for example [uvx, xpk==1.16.0]
    extra: tuple[Flag, ...] = ()  # further flags of `xpk workload create`, for example [--spot]

    @property
    def facts(self) -> dict[str, Any]:
        """The settings that can change a run's outcome; see ImageSettings."""
        return self.model_dump(include={"image", "tpu_type", "num_slices"})


SETTINGS = Xpk
