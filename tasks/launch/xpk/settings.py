"""The settings of jobs that are workloads of a cluster created by xpk."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from configs.backend_settings import Flag, ImageSettings, Lines, Word


class Xpk(ImageSettings):
    """A cluster created by xpk, and the settings of its workloads."""

    hires_chips: ClassVar[bool] = True

    backend: Literal["xpk"] = "xpk"
    cluster: Word
    project: Word
    zone: Annotated[str, Field(pattern=r"^[a-z]+-[a-z]+\d+-[a-z]$")]
    tpu_type: Word
    num_slices: Annotated[int, Field(ge=1, le=256)] = 1
    priority: Literal["very-low", "low", "medium", "high", "very-high"] = "medium"
    namespace: Word = "default"
    context: Word | None = None  # of the kubeconfig; not set: gke_PROJECT_REGION_CLUSTER
    start_limit_s: Annotated[int, Field(ge=1)] = 4 * 3600  # how long a run may wait for machines
    attempts: Annotated[int, Field(ge=1, le=100)] = 3  # starts of a run that is preempted
    grace_s: Annotated[int, Field(ge=1, le=3600)] = 60  # from SIGTERM to SIGKILL: to save a checkpoint
    shared_out: bool = False  # whether pods mount the output folder at the same path
    argv: Lines = ("xpk",)  # xpk's command, for example [uvx, xpk==1.16.0]
    extra: tuple[Flag, ...] = ()  # further flags of `xpk workload create`, for example [--spot]

    @property
    def facts(self) -> dict[str, Any]:
        """See ImageSettings."""
        return self.model_dump(include={"image", "tpu_type", "num_slices"})


SETTINGS = Xpk
